// What must always hold for the layered schemes with fixed or reported rates, with random channels,
// members, clocks and forgeries from a seed.
#include <cstdio>

#include "tests/protocols/rigs/core_rig.h"

namespace tiercast {
namespace {

class Layered : public testing::TestWithParam<std::tuple<const char*, std::uint64_t>> {
 protected:
  RigConfig config() const {
    RigConfig config;
    config.scheme = std::get<0>(GetParam());
    config.seed = std::get<1>(GetParam());
    config.receivers = 5;
    std::printf("%s, seed %lu\n", config.scheme.c_str(), static_cast<unsigned long>(config.seed));
    return config;
  }
  // Data flows, and receivers are heard, so the session is alive. PLM has no pacing, and leaves a
  // session that loses a tenth of its packets for half a minute.
  void expect_alive(Rig& rig, unsigned receiver, Duration patience) const {
    const bool plm = rig.scheme() == "plm";
    const std::uint64_t packets = rig.receiver(receiver).counters().packets;
    rig.run_for(patience);
    EXPECT_GT(rig.receiver(receiver).counters().packets, packets + (plm ? 5 : 20));
    if (!plm) {
      EXPECT_GT(rig.rate(0), Rate::zero());
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Seeds, Layered,
                         testing::Combine(testing::Values("mlda", "rlm", "rlc", "plm"),
                                          testing::Range<std::uint64_t>(1, 9)));

TEST_P(Layered, LivesThroughLossRepetitionAndReordering) {
  RigConfig chaos = config();
  Rng rng(chaos.seed);
  chaos.loss = 0.3 * rng.uniform();
  chaos.duplicate = 0.3 * rng.uniform();
  chaos.reorder = 0.3 * rng.uniform();
  Rig rig(chaos);
  rig.start();
  rig.run_for(Duration::seconds(200));
  const std::uint64_t invalid = rig.sender().invalid();
  expect_alive(rig, 0, Duration::seconds(60));
  EXPECT_EQ(invalid, 0u);  // lost or repeated messages are not invalid
}

TEST_P(Layered, LivesThroughForgedAndTruncatedMessages) {
  RigConfig chaos = config();
  chaos.alter = 0.3;
  Rig rig(chaos);
  rig.start();
  Rng rng(chaos.seed + 1000);
  for (int i = 0; i < 2000; ++i) {
    rig.run_for(Duration::milliseconds(50));
    std::vector<std::byte> forged(rng.below(80));
    for (std::byte& byte : forged) byte = static_cast<std::byte>(rng.next());
    if (rng.uniform() < 0.8 && !rig.heard().empty()) {
      forged = rig.heard()[rng.below(rig.heard().size())];
      for (std::size_t n = rng.below(6); n > 0 && forged.size() > 8; --n) {
        // After the common header, so that most of them get through to the scheme.
        forged[8 + rng.below(std::min<std::size_t>(forged.size(), 48) - 8)] =
            static_cast<std::byte>(rng.next());
      }
    }
    if (rng.uniform() < 0.5) {
      rig.to_sender(forged, static_cast<std::uint32_t>(rng.below(8)));
    } else {
      rig.to_receiver(static_cast<unsigned>(rng.below(5)), forged);
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(rig.sender().invalid(), 0u);
  EXPECT_GT(rig.receiver(0).counters().invalid, 0u);
  expect_alive(rig, 0, Duration::seconds(60));
}

TEST_P(Layered, LivesThroughClocksAndNumbersAtTheirWrap) {
  RigConfig wrap = config();
  Rng rng(wrap.seed);
  // The sender's clock passes 2^32 us during the run; the receivers' clocks wrap at other times.
  wrap.start = Time::zero() + Duration::microseconds(1LL << 32) - Duration::seconds(60);
  wrap.clock_step = Duration::seconds(-20 + 40 * rng.uniform());
  wrap.loss = 0.01;
  Rig rig(wrap);
  rig.start();
  rig.run_for(Duration::seconds(60));
  const ReceiverCounters before = rig.receiver(1).counters();
  rig.run_for(Duration::seconds(120));
  const ReceiverCounters after = rig.receiver(1).counters();
  // A wrap is not a loss: the loss rate stays the channel's 1 %.
  EXPECT_LT(static_cast<double>(after.lost - before.lost),
            0.03 * static_cast<double>(after.packets - before.packets));
  expect_alive(rig, 0, Duration::seconds(60));
}

TEST_P(Layered, LivesThroughMembersThatComeAndGo) {
  RigConfig members = config();
  members.loss = 0.02;
  Rig rig(members);
  rig.start();
  Rng rng(members.seed + 500);
  std::array<int, 5> state{};  // 0 member, 1 gone, 2 dead
  for (int i = 0; i < 60; ++i) {
    rig.run_for(Duration::seconds(5 * rng.uniform()));
    const auto who = static_cast<unsigned>(rng.below(5));
    if (state[who] == 0) {
      state[who] = rng.uniform() < 0.5 ? 1 : 2;
      state[who] == 1 ? rig.leave(who) : rig.die(who);
    } else {
      if (state[who] == 2) rig.forget(who);
      rig.join(who);
      state[who] = 0;
    }
    if (HasFatalFailure()) return;
  }
  for (unsigned i = 0; i < 5; ++i) {
    if (state[i] == 0) rig.leave(i);
    if (state[i] == 2) rig.forget(i);
  }
  rig.run_for(Duration::seconds(1));
  for (Rank k = 0; k < 3; ++k) EXPECT_EQ(rig.rate(k), Rate::zero());
  rig.join(3);
  expect_alive(rig, 3, Duration::seconds(60));
}

// A core that gets no answers does not keep sending at its earlier rate for ever, and it recovers.
TEST_P(Layered, SurvivesASilentChannel) {
  RigConfig silent = config();
  Rig rig(silent);
  rig.start();
  rig.run_for(Duration::seconds(60));
  for (unsigned i = 0; i < 5; ++i) rig.die(i);
  rig.run_for(Duration::seconds(200));
  for (unsigned i = 0; i < 5; ++i) {
    rig.forget(i);
    rig.join(i);
  }
  expect_alive(rig, 2, Duration::seconds(60));
}

}  // namespace
}  // namespace tiercast
