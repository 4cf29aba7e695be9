// RLA as a reliable transport: the object arrives complete and in order at every receiver, whatever
// the network does to packets. A receiver that missed a part says so.
#include <gtest/gtest.h>

#include <cmath>

#include "protocols/schemes/rla/receiver.h"
#include "protocols/schemes/rla/sender.h"
#include "tests/protocols/rigs/lossy_group.h"

namespace tiercast::testkit {
namespace {

const rla::Sender& rla_sender(LossyGroup& group) {
  return dynamic_cast<const rla::Sender&>(group.sender());
}
bool incomplete(LossyGroup& group, std::size_t i) {
  return dynamic_cast<const rla::Receiver&>(group.receiver(i)).incomplete();
}

LossyGroupConfig group_config(std::size_t receivers, std::size_t bytes, std::uint64_t seed = 1) {
  LossyGroupConfig config;
  config.scheme = "rla";
  config.receivers = receivers;
  config.seed = seed;
  config.object = random_bytes(bytes, seed);
  return config;
}

bool finishes(LossyGroup& group, Duration at_most) {
  const Time end = group.now() + at_most;
  while (!group.sender().finished() && group.now() < end) group.run_for(Duration::seconds(0.1));
  return group.sender().finished();
}

void expect_whole(LossyGroup& group, std::size_t i, const std::vector<std::byte>& object) {
  EXPECT_TRUE(group.object(i) == object) << "receiver " << i;
  EXPECT_TRUE(group.in_order(i)) << "receiver " << i;
  EXPECT_TRUE(group.receiver(i).counters().complete) << "receiver " << i;
  EXPECT_EQ(group.receiver(i).counters().delivered, object.size()) << "receiver " << i;
  EXPECT_FALSE(incomplete(group, i)) << "receiver " << i;
}

TEST(RlaObject, AFileToTwentySevenReceiversUnderLossAndReorderingIsTheSameFile) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    LossyGroupConfig config = group_config(27, 1'000'003, seed);
    config.loss = 0.05;
    config.ack_loss = 0.05;
    config.duplicates = 0.01;
    config.reordering = Duration::milliseconds(10);
    LossyGroup group(config);
    group.start();
    // A window of 2 to 5 packets per RTT of 50 ms, for 1073 packets, takes about a minute
    // (measured).
    ASSERT_TRUE(finishes(group, Duration::seconds(120)));
    for (std::size_t i = 0; i < 27; ++i) expect_whole(group, i, config.object);
    EXPECT_EQ(rla_sender(group).counts().dropped, 0u);
    EXPECT_EQ(group.unicasts(), 0u);  // rexmit_thresh is 0
  }
}

TEST(RlaObject, AnyLengthArrives) {
  const std::size_t payload = 1000 - 28 - 32;
  for (const std::size_t bytes : {std::size_t{1}, payload - 1, payload, payload + 1, 7 * payload}) {
    SCOPED_TRACE(bytes);
    LossyGroup group(group_config(2, bytes));
    group.start();
    ASSERT_TRUE(finishes(group, Duration::seconds(20)));
    for (std::size_t i = 0; i < 2; ++i) expect_whole(group, i, random_bytes(bytes, 1));
  }
}

// A seed with which packet numbers start just below 2^32; they are the second draw, as in Sender's
// constructor.
std::uint64_t seed_that_wraps() {
  for (std::uint64_t seed = 1;; ++seed) {
    Rng rng(seed);
    rng.next();
    if (static_cast<std::uint32_t>(rng.next()) > 0xffffff80) return seed;
  }
}

TEST(RlaObject, NumbersAndClocksWrapUnderWay) {
  LossyGroupConfig config = group_config(5, 500'000, seed_that_wraps());
  config.loss = 0.02;
  config.reordering = Duration::milliseconds(10);
  // The sender's 32 bits of microseconds wrap after 4294.97 s.
  config.start = Time::zero() + Duration::seconds(4294.967296 - 3);
  LossyGroup group(config);
  group.start();
  EXPECT_GT(rla_sender(group).min_last_ack(), 0xffffff80u);
  ASSERT_TRUE(finishes(group, Duration::seconds(60)));
  EXPECT_GT(group.now().seconds(), 4295);
  EXPECT_LT(rla_sender(group).min_last_ack(), 1000u);
  // A round-trip time that wrapped must not cause a time-out.
  EXPECT_LE(rla_sender(group).counts().timeouts, 2u);
  for (std::size_t i = 0; i < 5; ++i) expect_whole(group, i, config.object);
}

TEST(RlaObject, FewRequestersAreServedByUnicast) {
  LossyGroupConfig config = group_config(10, 300'000);
  config.loss = 0.03;
  config.set = {"rla.rexmit_thresh=2"};
  LossyGroup group(config);
  group.start();
  ASSERT_TRUE(finishes(group, Duration::seconds(60)));
  for (std::size_t i = 0; i < 10; ++i) expect_whole(group, i, config.object);
  // Binomial(10, 0.03): 98.9 % of the packets that are lost at all are lost by one or two
  // receivers.
  EXPECT_GT(group.unicasts(), 10 * rla_sender(group).counts().multicasts);
  EXPECT_EQ(group.unicasts(), rla_sender(group).counts().unicasts);
}

TEST(RlaObject, AReceiverThatWaitsTooLongIsServedAtOnce) {
  // Receiver 1 gets packets late, so the sender would wait for its report before it repeats a
  // packet.
  const auto slowest_hole = [](const std::vector<std::string>& set) {
    LossyGroupConfig config = group_config(2, 400'000);
    config.set = set;
    LossyGroup group(config);
    group.set_loss(0, 0.05);
    group.set_extra_delay(1, Duration::milliseconds(300));
    group.start();
    EXPECT_TRUE(finishes(group, Duration::seconds(400)));
    for (std::size_t i = 0; i < 2; ++i) expect_whole(group, i, config.object);
    return group.unicasts();
  };
  EXPECT_EQ(slowest_hole({}), 0u);
  EXPECT_GT(slowest_hole({"rla.rexmit_now_after=0.06"}), 5u);
}

TEST(RlaObject, TheReceiversBufferBoundsTheWindow) {
  LossyGroupConfig config = group_config(3, 600'000);
  config.set = {"rla.buffer=8"};
  LossyGroup group(config);
  group.start();
  std::uint32_t most = 0;
  while (!group.sender().finished() && group.now().seconds() < 60) {
    group.run_for(Duration::milliseconds(1));
    most = std::max(most, rla_sender(group).listening().cwnd() > 8 ? 1u : 0u);
  }
  ASSERT_TRUE(group.sender().finished());
  EXPECT_EQ(most, 1u);  // cwnd alone would have allowed more
  // 639 packets at 8 per round trip of 40 ms take 3.2 s plus the first ramp; without the bound 0.5
  // s.
  EXPECT_NEAR(group.now().seconds() - 1.02, 3.2, 0.6);
  for (std::size_t i = 0; i < 3; ++i) expect_whole(group, i, config.object);
}

TEST(RlaObject, ALateJoinerGetsTheRestAndDoesNotClaimTheWhole) {
  LossyGroupConfig config = group_config(3, 2'000'000);
  config.loss = 0.01;
  LossyGroup group(config);
  group.start(0, 2);
  group.run_for(Duration::seconds(4));
  ASSERT_FALSE(group.sender().finished());
  ASSERT_GT(group.object(0).size(), 50'000u);
  const std::size_t missed = group.object(0).size();
  group.start_receiver(2);
  ASSERT_TRUE(finishes(group, Duration::seconds(200)));
  expect_whole(group, 0, config.object);
  expect_whole(group, 1, config.object);
  EXPECT_TRUE(incomplete(group, 2));
  const ReceiverCounters late = group.receiver(2).counters();
  EXPECT_FALSE(late.complete);
  EXPECT_GT(late.delivered, 100'000u);
  EXPECT_LT(late.delivered, config.object.size() - missed + 1);
  // What it has is what was sent, up to the end.
  ASSERT_EQ(group.object(2).size(), config.object.size());
  EXPECT_TRUE(std::equal(config.object.end() - static_cast<std::ptrdiff_t>(late.delivered),
                         config.object.end(),
                         group.object(2).end() - static_cast<std::ptrdiff_t>(late.delivered)));
}

TEST(RlaObject, ASilentReceiverIsDroppedAndTheOthersGoOn) {
  LossyGroupConfig config = group_config(4, 3'000'000);
  config.loss = 0.01;
  LossyGroup group(config);
  group.start();
  group.run_for(Duration::seconds(3));
  group.die(3);
  ASSERT_TRUE(finishes(group, Duration::seconds(120)));
  for (std::size_t i = 0; i < 3; ++i) expect_whole(group, i, config.object);
  EXPECT_EQ(rla_sender(group).counts().dropped, 1u);
  EXPECT_EQ(rla_sender(group).receivers(), 3u);
}

TEST(RlaObject, AReceiverThatReturnsAfterItWasDroppedGoesOnIncomplete) {
  LossyGroupConfig config = group_config(3, 6'000'000);
  config.loss = 0.01;
  LossyGroup group(config);
  group.start();
  group.run_for(Duration::seconds(3));
  group.die(2);
  group.run_for(Duration::seconds(12));
  EXPECT_EQ(rla_sender(group).receivers(), 2u);
  ASSERT_FALSE(group.sender().finished());
  group.revive(2);
  ASSERT_TRUE(finishes(group, Duration::seconds(200)));
  EXPECT_EQ(rla_sender(group).receivers(), 3u);
  expect_whole(group, 0, config.object);
  EXPECT_TRUE(incomplete(group, 2));
  EXPECT_FALSE(group.receiver(2).counters().complete);
}

TEST(RlaObject, TheSlowestIsDroppedIfThatIsAskedFor) {
  const auto run = [](const std::vector<std::string>& set, std::uint64_t& dropped) {
    LossyGroupConfig config = group_config(5, 0);  // a stream
    config.set = set;
    LossyGroup group(config);
    for (std::size_t i = 0; i < 4; ++i) group.set_loss(i, 0.0005);
    group.set_loss(4, 0.05);
    group.start();
    group.run_for(Duration::seconds(60));
    dropped = rla_sender(group).counts().dropped;
    return rla_sender(group).counts().acknowledged;
  };
  std::uint64_t dropped = 0;
  const std::uint64_t with = run({}, dropped);
  EXPECT_EQ(dropped, 0u);
  const std::uint64_t without = run({"rla.drop_slow_ratio=5"}, dropped);
  EXPECT_EQ(dropped, 1u);
  // The window is proportional to 1/sqrt(p): the others' 4 x 0.0005 / 4 against 0.05 / n; at least
  // 3 times.
  EXPECT_GT(without, 3 * with);
}

TEST(RlaObject, LeavingLetsTheWindowGo) {
  LossyGroupConfig config = group_config(3, 2'000'000);
  LossyGroup group(config);
  group.start();
  group.run_for(Duration::seconds(1.3));
  group.set_loss(2, 1);  // gets nothing any more, and leaves
  group.run_for(Duration::milliseconds(100));
  group.stop_receiver(2);
  group.run_for(Duration::milliseconds(200));
  EXPECT_EQ(rla_sender(group).receivers(), 2u);
  ASSERT_TRUE(finishes(group, Duration::seconds(20)));
  EXPECT_EQ(rla_sender(group).counts().timeouts, 0u);
  expect_whole(group, 0, config.object);
  EXPECT_FALSE(group.receiver(2).counters().complete);
  EXPECT_EQ(group.receiver(2).counters().top, -1);
}

TEST(RlaObject, AnInterruptionOfEverythingEnds) {
  LossyGroupConfig config = group_config(4, 3'000'000);
  config.loss = 0.01;
  LossyGroup group(config);
  group.start();
  group.run_for(Duration::seconds(2));
  ASSERT_FALSE(group.sender().finished());
  group.set_loss(1);
  group.run_for(Duration::seconds(60));
  EXPECT_EQ(rla_sender(group).receivers(), 4u);  // no receiver makes progress, so none is dropped
  group.set_loss(0);
  ASSERT_TRUE(finishes(group, Duration::seconds(120)));
  for (std::size_t i = 0; i < 4; ++i) expect_whole(group, i, config.object);
}

TEST(RlaObject, AStreamHasNoEndAndDeliversNothing) {
  LossyGroupConfig config = group_config(2, 0);
  config.loss = 0.01;
  LossyGroup group(config);
  group.start();
  group.run_for(Duration::seconds(20));
  EXPECT_FALSE(group.sender().finished());
  EXPECT_GT(rla_sender(group).counts().acknowledged, 1000u);
  EXPECT_EQ(group.receiver(0).counters().delivered, 0u);
  EXPECT_FALSE(group.receiver(0).counters().complete);
}

TEST(RlaObject, ARestartedSenderFindsTheReceiversThatSayNoHello) {
  LossyGroup group(group_config(2, 0));
  group.start();
  group.run_for(Duration::seconds(5));
  group.restart_sender(99);
  group.run_for(Duration::seconds(10));
  EXPECT_EQ(rla_sender(group).receivers(), 2u);
  EXPECT_GT(rla_sender(group).counts().acknowledged, 100u);
}

TEST(RlaObject, RepairsForOthersCostAReceiverNothing) {
  for (const double outage_s : {0.05, 0.5, 2.0}) {
    SCOPED_TRACE(outage_s);
    LossyGroupConfig config = group_config(2, 0);
    config.set = {"rla.max_window=32"};
    LossyGroup group(config);
    group.start();
    group.run_for(Duration::seconds(5));
    group.set_loss(1, 1);
    group.run_for(Duration::seconds(outage_s));
    group.set_loss(1, 0);
    group.run_for(Duration::seconds(10));
    EXPECT_FALSE(incomplete(group, 0));
    EXPECT_EQ(group.receiver(0).counters().lost, 0u);
    EXPECT_GT(rla_sender(group).counts().multicasts, 8u);
  }
}

// Numbers that serial arithmetic takes for older ones than they are.
TEST(RlaObject, AnAcknowledgementOfPacketsFarFromTheWindowIsRefused) {
  LossyGroupConfig config = group_config(2, 0);
  config.set = {"rla.buffer=32"};
  LossyGroup group(config);
  group.start();
  group.run_for(Duration::seconds(20));
  const auto forged = [&](std::uint32_t cum_ack, std::uint32_t start, std::uint32_t end) {
    wire::RlaAck ack;
    EXPECT_EQ(wire::parse(group.last_feedback(), ack), wire::Error::kOk);
    ack.cum_ack += cum_ack;
    ack.record_count = 1;
    ack.sacks[0] = {ack.cum_ack + start, ack.cum_ack + end};
    std::vector<std::byte> message(wire::RlaAck::kMaxBytes);
    message.resize(wire::write(ack, message));
    return message;
  };
  constexpr std::uint32_t kHalf = 1u << 31;
  const std::uint64_t invalid = group.sender().invalid();
  group.to_sender(forged(0, kHalf - 1, 2 * (kHalf - 1)), 0);  // a run that ends before cum_ack
  group.to_sender(forged(0, 1, kHalf - 1), 0);
  group.to_sender(forged(0, 1, (1u << 16) + 1), 0);
  group.to_sender(forged(kHalf - 2, 1, 10), 0);
  group.to_sender(forged((1u << 16) + 100, 1, 2), 0);
  EXPECT_EQ(group.sender().invalid(), invalid + 5);
  const std::uint64_t before = rla_sender(group).counts().acknowledged;
  group.run_for(Duration::seconds(10));
  EXPECT_GT(rla_sender(group).counts().acknowledged, before + 1000);
  EXPECT_EQ(rla_sender(group).receivers(), 2u);
}

// A repair to each of many receivers leaves at one instant.
TEST(RlaObject, RepairsByUnicastLeaveHonestReceiversTheirProof) {
  LossyGroupConfig config = group_config(150, 0);
  config.set = {"rla.rexmit_thresh=1000", "rla.max_window=16"};
  LossyGroup group(config);
  group.start();
  group.run_for(Duration::seconds(3));
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t sent = group.data_packets();
    group.set_loss(1);
    while (group.data_packets() < sent + 2) group.run_for(Duration::microseconds(100));
    group.set_loss(0);
    group.run_for(Duration::milliseconds(300));
  }
  EXPECT_GT(group.unicasts(), 600u);
  EXPECT_EQ(group.sender().implausible(), 0u);
}

TEST(RlaObject, NothingIsSentBeforeSomebodyIsThereAndNothingAfterAllHaveLeft) {
  LossyGroup group(group_config(2, 0));
  group.start(0, 0);
  group.run_for(Duration::seconds(5));
  EXPECT_EQ(group.data_packets(), 0u);
  group.start_receiver(0);
  group.start_receiver(1);
  group.run_for(Duration::seconds(5));
  EXPECT_GT(group.data_packets(), 100u);
  group.stop_receiver(0);
  group.stop_receiver(1);
  group.run_for(Duration::seconds(1));
  const std::uint64_t then = group.data_packets();
  group.run_for(Duration::seconds(20));
  EXPECT_EQ(group.data_packets(), then);
  EXPECT_TRUE(group.sender().next_timer().is_never());
}

// --- Hostile networks
// -----------------------------------------------------------------------------

class RlaProperty : public ::testing::TestWithParam<std::uint64_t> {};

void expect_sane(LossyGroup& group) {
  const double cwnd = rla_sender(group).listening().cwnd();
  ASSERT_TRUE(std::isfinite(cwnd));
  ASSERT_GE(cwnd, 1);
  ASSERT_LE(cwnd, 1024);
  ASSERT_GE(rla_sender(group).listening().awnd(), 1 - 1e-9);
  ASSERT_LE(rla_sender(group).listening().num_trouble_rcvr(), rla_sender(group).receivers());
}

TEST_P(RlaProperty, GarbageNeitherCrashesNorStopsASession) {
  LossyGroupConfig config = group_config(6, 0, GetParam());
  config.loss = 0.02;
  config.reordering = Duration::milliseconds(5);
  LossyGroup group(config);
  group.start();
  Rng rng(GetParam());
  for (int i = 0; i < 3000; ++i) {
    group.run_for(Duration::milliseconds(static_cast<std::int64_t>(rng.below(20))));
    forge(group, rng, rng.below(6), 56);
    expect_sane(group);
  }
  // Left alone, the session goes on: strangers that never report are dropped, and receivers that
  // followed a forged packet come back.
  group.run_for(Duration::seconds(100));
  const std::uint64_t then = rla_sender(group).counts().acknowledged;
  group.run_for(Duration::seconds(60));
  EXPECT_GT(rla_sender(group).counts().acknowledged, then + 100);
}

TEST_P(RlaProperty, ReceiversComeGoDieAndReturn) {
  LossyGroupConfig config = group_config(12, 0, GetParam());
  config.loss = 0.02;
  config.ack_loss = 0.02;
  config.duplicates = 0.05;
  config.reordering = Duration::milliseconds(30);
  config.set = {"rla.max_receivers=8", "rla.rexmit_thresh=1", "rla.rexmit_now_after=0.1",
                "rla.overhead=0.002"};
  LossyGroup group(config);
  group.start(0, 2);
  Rng rng(GetParam() + 100);
  std::vector<int> state(12, 0);  // 0 not started, 1 runs, 2 dead, 3 stopped
  state[0] = state[1] = 1;
  for (int i = 0; i < 300; ++i) {
    group.run_for(Duration::milliseconds(static_cast<std::int64_t>(rng.below(1000))));
    const std::size_t who = rng.below(12);
    if (state[who] == 0) {
      group.start_receiver(who);
      state[who] = 1;
    } else if (state[who] == 1 && who != 0) {
      state[who] = rng.uniform() < 0.2 ? 3 : 2;
      state[who] == 3 ? group.stop_receiver(who) : group.die(who);
    } else if (state[who] == 2) {
      group.revive(who);
      state[who] = 1;
    }
    expect_sane(group);
    ASSERT_LE(rla_sender(group).receivers(), 8u);
  }
  const std::uint64_t then = rla_sender(group).counts().acknowledged;
  group.run_for(Duration::seconds(100));
  EXPECT_GT(rla_sender(group).counts().acknowledged, then + 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RlaProperty, ::testing::Values(1, 2, 3, 4, 5));

}  // namespace
}  // namespace tiercast::testkit
