// RLM: its messages, its receiver's states one by one, and whole sessions (PROTOCOLS 10;
// SIM 4.2.7).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "protocols/schemes/rlm/receiver.h"
#include "protocols/schemes/rlm/sender.h"
#include "protocols/testkit/session.h"
#include "tests/protocols/rigs/recording_sink.h"

namespace tiercast::rlm {
namespace {

using State = Receiver::State;

SessionConfig rlm_config(unsigned layers = 4, const std::vector<std::string>& set = {}) {
  return core_config("rlm", layers, set);
}

std::vector<std::byte> bytes_of(std::uint8_t rank, std::uint32_t source, wire::Type type) {
  wire::RlmAnnouncement announcement;
  announcement.type = type;
  announcement.session = 9;
  announcement.rank = rank;
  announcement.source = source;
  std::vector<std::byte> bytes(wire::RlmAnnouncement::kBytes);
  EXPECT_EQ(wire::write(announcement, bytes), bytes.size());
  return bytes;
}

TEST(RlmSettings, LayersDoubleOrAreUniformUpToTheCap) {
  const Settings papers = Settings::from(rlm_config(6));
  const double kbit[] = {32, 64, 128, 256, 512, 1024};
  for (std::size_t k = 0; k < 6; ++k) EXPECT_EQ(papers.rate[k], Rate::kbit_per_second(kbit[k]));
  // SIM 4.2.7: the bottom group has 1 Mbit/s, each upper one 4 / (n_g - 1).
  const Settings uniform =
      Settings::from(rlm_config(5, {"rlm.base_rate=1Mbit/s", "rlm.step_rate=1Mbit/s",
                                    "rlm.growth=1", "rlm.max_rate=4.5Mbit/s"}));
  for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(uniform.rate[k], Rate::mbit_per_second(1));
  EXPECT_NEAR(uniform.rate[4].mbit_per_second(), 0.5, 1e-9);
  EXPECT_THROW(Settings::from(rlm_config(4, {"rlm.join_max=1"})), ConfigError);
}

TEST(RlmSender, SendsAtFixedRatesAndRepeatsAnnouncements) {
  RecordingSink sink;
  Sender sender(rlm_config(3, {"rlm.max_reflections=2"}));
  sender.start(at_ms(0), sink);
  std::vector<std::byte> message(972);
  EXPECT_EQ(sender.write_data(at_ms(0), 0, message), 0u);
  sender.membership(at_ms(0), 1, sink);
  EXPECT_EQ(sink.rates[0], Rate::kbit_per_second(32));
  EXPECT_EQ(sink.rates[1], Rate::kbit_per_second(64));
  EXPECT_EQ(sink.rates.count(2), 0u);
  std::uint32_t seq[2];
  for (std::uint32_t& s : seq) {
    ASSERT_EQ(sender.write_data(at_ms(1), 1, message), wire::RlmData::kBytes);
    wire::RlmData data;
    ASSERT_EQ(wire::parse(message, data), wire::Error::kOk);
    EXPECT_EQ(data.rank, 1);
    s = data.seq;
  }
  EXPECT_EQ(seq[1], seq[0] + 1);

  const auto announce = [&](Time now, std::vector<std::byte> bytes) {
    sender.receive(now, {bytes, 44, false, 5}, sink);
  };
  for (int i = 0; i < 5; ++i) announce(at_ms(2000), bytes_of(1, 3, wire::Type::kFeedback));
  ASSERT_EQ(sink.sent.size(), 2u);  // the limit per second
  wire::RlmAnnouncement repeated;
  ASSERT_EQ(wire::parse(sink.sent[0], wire::Type::kControl, repeated), wire::Error::kOk);
  EXPECT_EQ(repeated.source, 3u);
  EXPECT_EQ(repeated.rank, 1);
  announce(at_ms(3100), bytes_of(1, 3, wire::Type::kFeedback));
  EXPECT_EQ(sink.sent.size(), 3u);
  EXPECT_EQ(sender.invalid(), 0u);
  announce(at_ms(3100), bytes_of(3, 3, wire::Type::kFeedback));  // no such layer
  announce(at_ms(3100), bytes_of(1, 3, wire::Type::kControl));   // its own
  announce(at_ms(3100), message);
  EXPECT_EQ(sender.invalid(), 3u);
  sender.stop(at_ms(4000), sink);
  EXPECT_EQ(sink.rates[0], Rate::zero());
}

class RlmReceiver : public testing::Test {
 protected:
  void begin(const std::vector<std::string>& set = {}) {
    receiver_ = std::make_unique<Receiver>(rlm_config(4, set));
    receiver_->start(now_, sink_);
  }
  // Sends packets on every joined layer every 10 ms, and runs timers when they are due.
  void run_for(double seconds) {
    const Time end = now_ + Duration::seconds(seconds);
    while (now_ < end) {
      now_ = now_ + Duration::milliseconds(10);
      if (receiver_->next_timer() <= now_) receiver_->timer(now_, sink_);
      for (int rank = 0; rank <= top(); ++rank) packet(static_cast<Rank>(rank));
    }
  }
  void run_until_top(int wanted, double patience = 100) {
    for (const Time end = now_ + Duration::seconds(patience); top() != wanted && now_ < end;) {
      run_for(0.01);
    }
    ASSERT_EQ(top(), wanted);
  }
  void run_until_state(State wanted, double patience = 100) {
    for (const Time end = now_ + Duration::seconds(patience);
         receiver_->state() != wanted && now_ < end;) {
      run_for(0.01);
    }
    ASSERT_EQ(receiver_->state(), wanted);
  }
  void packet(Rank rank) {
    wire::RlmData data;
    data.session = 9;
    data.rank = rank;
    data.seq = seq_[rank]++;
    std::vector<std::byte> bytes(wire::RlmData::kBytes);
    wire::write(data, bytes);
    receiver_->receive(now_, {bytes, 1000, false, 1}, sink_);
  }
  void lose(std::uint32_t packets = 1, Rank rank = 0) {
    seq_[rank] += packets;
    packet(rank);
  }
  void heard(std::uint8_t rank, std::uint32_t source = 5) {
    const auto bytes = bytes_of(rank, source, wire::Type::kControl);
    receiver_->receive(now_, {bytes, 44, false, 1}, sink_);
  }
  int top() const { return receiver_->counters().top; }

  Time now_ = Time::zero() + Duration::seconds(3);
  RecordingSink sink_;
  std::unique_ptr<Receiver> receiver_;
  std::array<std::uint32_t, kMaxLayers> seq_{0xfffffff0u, 0, 7, 0xffffff00u};
};

TEST_F(RlmReceiver, JoinsLayerAfterLayerAndAnnouncesEach) {
  begin();
  EXPECT_EQ(top(), 0);
  std::vector<double> waits;
  for (int level = 1; level <= 3; ++level) {
    const Time then = now_;
    run_until_top(level);
    waits.push_back((now_ - then).seconds());
    ASSERT_EQ(sink_.sent.size(), static_cast<std::size_t>(level));
    wire::RlmAnnouncement announcement;
    ASSERT_EQ(wire::parse(sink_.sent.back(), wire::Type::kFeedback, announcement),
              wire::Error::kOk);
    EXPECT_EQ(announcement.rank, level);
    EXPECT_EQ(announcement.source, 77u);
  }
  EXPECT_GE(waits[0], 2.5);          // T_J / 2
  EXPECT_LE(waits[0], 2.5 + 20.02);  // plus less than 4 T_J
  EXPECT_GE(waits[1], 9 - 0.02);     // the last experiment counts as recent for T_D + 2 var
  run_for(100);
  EXPECT_EQ(top(), 3);
  EXPECT_EQ(receiver_->state(), State::kSteady);
}

TEST_F(RlmReceiver, JoinTimersAreHalfTjAndATruncatedExponential) {
  double sum = 0, least = 99, most = 0;
  constexpr int kRuns = 2000;
  for (int seed = 0; seed < kRuns; ++seed) {
    SessionConfig config = rlm_config();
    config.seed = static_cast<std::uint64_t>(seed);
    Receiver receiver(config);
    receiver.start(Time::zero(), sink_);
    // The detection timer of 8 s comes first if the join timer is longer.
    Time next = receiver.next_timer();
    if (next == Time::zero() + Duration::seconds(8)) {
      receiver.timer(next, sink_);
      next = std::min(receiver.next_timer(), Time::zero() + Duration::seconds(8));
    }
    sum += std::min(next.seconds(), 8.0);
    least = std::min(least, next.seconds());
    most = std::max(most, next.seconds());
  }
  // E[min(2.5 + X, 8)] with X exponential of mean 5 s, cut off at 20 s: 2.5 + the integral of
  // P(X > x) from 0 to 5.5 = 2.5 + (5 (1 - e^-1.1) - 5.5 e^-4) / (1 - e^-4) = 5.79; the deviation
  // of the mean of 2000 is 0.05.
  EXPECT_NEAR(sum / kRuns, 5.79, 0.15);
  EXPECT_GE(least, 2.5);
  EXPECT_LE(most, 8);
}

TEST_F(RlmReceiver, AFailedExperimentIsDroppedAndBackedOff) {
  begin();
  run_until_top(1);
  run_for(1);
  lose();
  EXPECT_EQ(top(), 0);
  EXPECT_EQ(receiver_->state(), State::kDrop);
  EXPECT_EQ(receiver_->t_join(1), 10);
  EXPECT_EQ(receiver_->t_join(2), 10);  // no higher layer is tried more often
  EXPECT_EQ(receiver_->t_join(0), 5);
  // D = 1 s: T_D = 5 + (1 - 5) / 4, var = 2 + (4 - 2) / 4.
  EXPECT_NEAR(receiver_->t_detect(), 4, 0.01);
  EXPECT_NEAR(receiver_->t_detect_var(), 2.5, 0.01);
  lose();  // packets still on their way do not count
  EXPECT_EQ(receiver_->t_join(1), 10);
  const Time then = now_;
  run_until_state(State::kSteady);
  EXPECT_NEAR((now_ - then).seconds(), 4 + 1.5 * 2.5, 0.05);
  for (int i = 0; i < 6; ++i) {
    run_until_top(1, 1000);
    run_for(1);
    lose();
  }
  EXPECT_EQ(receiver_->t_join(1), 60);  // the maximum
}

TEST_F(RlmReceiver, SteadyStateRelaxesItsLayersJoinTimer) {
  begin();
  run_until_top(1);
  run_for(1);
  lose();
  run_until_top(1, 1000);
  EXPECT_EQ(receiver_->t_join(1), 10);
  run_for(60);
  EXPECT_EQ(receiver_->t_join(1), 5);  // the minimum
}

TEST_F(RlmReceiver, LossWithoutAnExperimentGoesThroughHysteresisAndMeasurement) {
  begin({"rlm.join_init=60"});
  run_for(10);
  lose();
  EXPECT_EQ(receiver_->state(), State::kHysteresis);
  const Time then = now_;
  run_until_state(State::kMeasurement);
  EXPECT_NEAR((now_ - then).seconds(), 5 + 1.5 * 2, 0.05);
  lose();  // a few losses are tolerated
  EXPECT_EQ(receiver_->state(), State::kMeasurement);
  const Time measured = now_;
  run_until_state(State::kSteady);
  EXPECT_NEAR((now_ - measured).seconds(), 5 + 2 * 2, 0.05);  // T_D + (1/2 + 1.5) var
}

TEST_F(RlmReceiver, MeasurementDropsAboveAQuarterOverTenPackets) {
  begin();
  run_until_top(3, 200);  // the last layer: no experiment remains
  run_for(12);
  ASSERT_EQ(receiver_->state(), State::kSteady);
  lose();
  run_until_state(State::kMeasurement);
  const int before = top();
  for (int i = 0; i < 4; ++i) lose();  // half of fewer than ten packets is lost
  EXPECT_EQ(receiver_->state(), State::kMeasurement);
  for (int i = 0; i < 10 && receiver_->state() == State::kMeasurement; ++i) lose();
  EXPECT_EQ(receiver_->state(), State::kDrop);
  EXPECT_EQ(top(), before - 1);
  EXPECT_EQ(receiver_->t_join(static_cast<Rank>(before)), 5);  // no experiment failed
}

TEST_F(RlmReceiver, LearnsFromTheExperimentsOfOthers) {
  begin();
  run_for(2);
  heard(1);
  lose();
  EXPECT_EQ(top(), 0);
  EXPECT_EQ(receiver_->t_join(1), 10);
  EXPECT_EQ(receiver_->t_detect(), 5);                 // not its own experiment
  EXPECT_EQ(receiver_->state(), State::kMeasurement);  // the base layer was joined 2 s ago
  // Two levels above: it is backed off too, and so are those above it.
  begin();
  run_for(2);
  heard(2);
  lose();
  EXPECT_EQ(receiver_->t_join(1), 5);
  EXPECT_EQ(receiver_->t_join(2), 10);
  EXPECT_EQ(receiver_->t_join(3), 10);
  // Nothing is pending any more.
  begin({"rlm.join_init=60"});
  heard(1);
  run_for(9.1);
  lose();
  EXPECT_EQ(receiver_->t_join(1), 60);
  EXPECT_EQ(receiver_->state(), State::kHysteresis);
  // Its own announcement, which comes back, is ignored.
  begin();
  run_for(2);
  heard(1, 77);
  lose();
  EXPECT_EQ(receiver_->t_join(1), 5);
}

TEST_F(RlmReceiver, WaitsForExperimentsBelow) {
  begin();
  const Time then = now_;
  while (now_ - then < Duration::seconds(60)) {
    heard(0);  // somebody joins its base layer, again and again
    run_for(1);
  }
  EXPECT_EQ(top(), 0);
  run_until_top(1, 60);
}

TEST_F(RlmReceiver, DoesNotJoinOnTopOfALayerThatIsSilent) {
  begin();
  const Time end = now_ + Duration::seconds(100);
  while (now_ < end) {
    now_ = std::max(now_, receiver_->next_timer());
    receiver_->timer(now_, sink_);
  }
  EXPECT_EQ(top(), 0);
  EXPECT_GT(receiver_->t_detect(), 5);
  EXPECT_LE(receiver_->t_detect(), 60);
}

TEST_F(RlmReceiver, KeepsTheBaseLayerUnlessToldOtherwise) {
  for (const bool leave : {false, true}) {
    sink_ = {};
    begin({leave ? "rlm.leave_base=1" : "rlm.leave_base=0", "rlm.join_init=30"});
    run_for(10);
    lose();
    run_until_state(State::kMeasurement);
    for (int i = 0; i < 20; ++i) lose();
    EXPECT_EQ(top(), leave ? -1 : 0);
    if (leave) run_until_top(0, 200);  // and tries again
  }
}

TEST_F(RlmReceiver, AReceiverAtTheLastLayerTriesAgainAfterADrop) {
  begin();
  run_until_top(3, 200);
  run_for(1);
  lose();
  ASSERT_EQ(top(), 2);
  run_until_top(3, 200);
}

TEST(RlmWire, WhatIsWrittenIsReadAndErrorsAreNamed) {
  std::vector<std::byte> bytes(20);
  const wire::RlmData data{.session = 9, .rank = 7, .seq = 0xfffffffe};
  ASSERT_EQ(wire::write(data, bytes), 16u);
  wire::RlmData read;
  EXPECT_EQ(wire::parse(bytes, read), wire::Error::kOk);  // four bytes of payload
  EXPECT_EQ(read.seq, data.seq);
  EXPECT_EQ(read.rank, 7);
  const auto data_error = [&](std::size_t at, std::uint8_t value) {
    std::vector<std::byte> changed = bytes;
    changed[at] = static_cast<std::byte>(value);
    return wire::name(wire::parse(changed, read));
  };
  EXPECT_EQ(data_error(1, 2), "type");
  EXPECT_EQ(data_error(2, 4), "scheme");
  EXPECT_EQ(data_error(5, 20), "length");
  EXPECT_EQ(data_error(8, 8), "rank");
  EXPECT_EQ(data_error(11, 1), "reserved");
  for (std::size_t cut = 0; cut < 16; ++cut) {
    EXPECT_EQ(wire::name(wire::parse(std::span(bytes).first(cut), read)), "short");
  }
  for (const wire::Type type : {wire::Type::kFeedback, wire::Type::kControl}) {
    const std::vector<std::byte> announcement = bytes_of(3, 0x01020304, type);
    wire::RlmAnnouncement out;
    EXPECT_EQ(wire::parse(announcement, type, out), wire::Error::kOk);
    EXPECT_EQ(out.source, 0x01020304u);
    EXPECT_EQ(
        wire::name(wire::parse(
            announcement,
            type == wire::Type::kControl ? wire::Type::kFeedback : wire::Type::kControl, out)),
        "type");
    std::vector<std::byte> changed = announcement;
    changed.push_back({});
    EXPECT_EQ(wire::name(wire::parse(changed, type, out)), "length");
    for (std::size_t cut = 0; cut < announcement.size(); ++cut) {
      EXPECT_EQ(wire::name(wire::parse(std::span(announcement).first(cut), type, out)), "short");
    }
  }
  EXPECT_EQ(wire::write(wire::RlmAnnouncement{.type = wire::Type::kData}, bytes), 0u);
}

TEST(RlmState, DoesNotGrowWithTheNumberOfReceivers) {
  EXPECT_LE(sizeof(Sender), 512u);
  EXPECT_LE(sizeof(Receiver), 1024u);
}

}  // namespace
}  // namespace tiercast::rlm

namespace tiercast::testkit {
namespace {

LinkConfig plain(double mbit) {
  LinkConfig link;
  link.rate = Rate::mbit_per_second(mbit);
  link.delay = Duration::milliseconds(5);
  link.marking = false;
  return link;
}

SessionOptions rlm(std::uint64_t seed, std::vector<Tree::Node> receivers) {
  SessionOptions options;
  options.scheme = "rlm";
  options.seed = seed;
  options.receivers = std::move(receivers);
  return options;
}

// 32, 96, 224, 480, 992 kbit/s behind 600: four layers fit. During experiments with the fifth, the
// level is one too high, and after a drop it may be one too low.
TEST(RlmSession, SettlesAtTheHighestLevelThatFits) {
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    Simulator simulator;
    Tree tree(simulator, {0, 0}, plain(0.6), Duration::milliseconds(10));
    Session session(simulator, tree, rlm(seed, {1}));
    session.start();
    simulator.run_for(Duration::seconds(200));
    session.begin_measuring({0.48});
    simulator.run_for(Duration::seconds(600));
    const Session::Result result = session.result();
    std::printf("seed %lu: levels %.2f %.2f %.2f %.2f %.2f, %.3f Mbit/s, loss %.3f\n",
                static_cast<unsigned long>(seed), result.at_top[0][0], result.at_top[0][1],
                result.at_top[0][2], result.at_top[0][3], result.at_top[0][4],
                result.received_mbit[0], result.loss);
    EXPECT_GE(result.at_top[0][3], 0.7);
    EXPECT_GT(result.at_top[0][4], 0.0);  // RLM never stops trying (SIM 4.2.7)
    EXPECT_NEAR(result.received_mbit[0], 0.48, 0.15 * 0.48);
    EXPECT_LE(result.loss, 0.1);
  }
}

// Shared learning: eight receivers behind one link do not make eight times as many experiments with
// the layer that does not fit, and all end at the same level.
TEST(RlmSession, ManyReceiversShareTheirExperiments) {
  const auto experiments = [](unsigned receivers) {
    double count = 0;
    for (const std::uint64_t seed : {1, 2, 3}) {
      Simulator simulator;
      std::vector<Tree::Node> parents = {0, 0};
      std::vector<Tree::Node> nodes;
      for (unsigned i = 0; i < receivers; ++i) {
        nodes.push_back(static_cast<Tree::Node>(parents.size()));
        parents.push_back(1);
      }
      Tree tree(simulator, parents, plain(10), Duration::milliseconds(10));
      tree.configure(1, plain(0.6));
      Session session(simulator, tree, rlm(seed, nodes));
      session.set_trace(
          [&](Time now, Tree::Node, std::string_view kind, std::span<const TraceField> fields) {
            if (kind == "rlm.join" && fields[0].value == 5 && now.seconds() > 100) ++count;
          });
      session.start();
      simulator.run_for(Duration::seconds(200));
      session.begin_measuring(std::vector<double>(receivers, 0.48));
      simulator.run_for(Duration::seconds(500));
      EXPECT_GE(session.result().efficiency, 0.8) << receivers << " receivers, seed " << seed;
    }
    return count;
  };
  const double one = experiments(1);
  const double eight = experiments(8);
  std::printf("experiments with the fifth layer: %.0f by one receiver, %.0f by eight\n", one,
              eight);
  EXPECT_GT(one, 0);
  EXPECT_LT(eight, 4 * one);
}

// SIM 4.2.7, figure 8: links 1-3, 1-4, 2-5, 14-30 and 2-6 have ascending rates from an interval of
// width 4 b around 3 Mbit/s; RLM uses 1 to 5 Mbit/s. SIM is more efficient.
TEST(RlmSession, IsLessEfficientThanSimOnBottlenecksThatDoNotFitItsLayers) {
  for (const double b : {0.4, 1.0}) {
    double mean[2] = {0, 0};
    for (const std::uint64_t seed : {1, 2}) {
      Rng rng(seed * 100 + static_cast<std::uint64_t>(b * 10));
      std::vector<double> mbit;
      for (int i = 0; i < 5; ++i) mbit.push_back(3 + 4 * b * (rng.uniform() - 0.5));
      std::sort(mbit.begin(), mbit.end());
      for (int scheme = 0; scheme < 2; ++scheme) {
        Simulator simulator;
        LinkConfig link = plain(6);
        link.marking = true;  // RLM ignores marks
        Tree tree(simulator, Tree::balanced_parents(16), link, Duration::milliseconds(10));
        const Tree::Node bottleneck[] = {3, 4, 5, 30, 6};
        std::vector<double> available(16, 6);
        for (std::size_t i = 0; i < 5; ++i) {
          tree.set_rate(bottleneck[i], Rate::mbit_per_second(mbit[i]));
        }
        for (Tree::Node node = 15; node <= 30; ++node) {
          const std::size_t i = node - 15;
          available[i] = node <= 18   ? mbit[0]
                         : node <= 22 ? mbit[1]
                         : node <= 26 ? mbit[2]
                                      : mbit[4];
          if (node == 30) available[i] = mbit[3];
        }
        SessionOptions options = rlm(seed, Figure1::receivers());
        options.layers = 5;
        if (scheme == 0) {
          options.scheme = "sim";
        } else {
          options.set = {"rlm.base_rate=1Mbit/s", "rlm.step_rate=1Mbit/s", "rlm.growth=1",
                         "rlm.leave_base=1"};
        }
        Session session(simulator, tree, options);
        session.start();
        session.begin_measuring(available);
        simulator.run_for(Duration::seconds(300));
        mean[scheme] += session.result().efficiency / 2;
      }
    }
    std::printf("b = %.1f: efficiency of SIM %.2f, of RLM %.2f\n", b, mean[0], mean[1]);
    EXPECT_GT(mean[0], mean[1]);
    EXPECT_GE(mean[1], 0.4);
    EXPECT_LE(mean[1], 0.9);
  }
}

}  // namespace
}  // namespace tiercast::testkit
