#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "protocols/base/rng.h"
#include "protocols/schemes/sim/sender.h"
#include "tests/protocols/rigs/recording_sink.h"

namespace tiercast::sim {
namespace {

class SimSender : public testing::Test {
 protected:
  void make(unsigned layers, const std::vector<std::string>& set = {},
            std::vector<Member> members = {}) {
    SessionConfig config = sim_config(layers, set);
    if (!members.empty()) config.members = std::make_shared<const Members>(std::move(members));
    sender_ = std::make_unique<Sender>(config);
    sender_->start(now_, sink_);
    sender_->membership(now_, static_cast<int>(layers) - 1, sink_);
    initial_ = sender_->rate(0);
    increase_ = sim_config(1, set).parameters.get("sim.increase") / 8;
    delta_ = sim_config(1, set).parameters.get("sim.delta");
  }
  wire::SimData data(Rank layer) {
    std::array<std::byte, 972> message;
    EXPECT_EQ(sender_->write_data(now_, layer, message), 32u);
    wire::SimData parsed;
    EXPECT_EQ(wire::parse(message, parsed), wire::Error::kOk);
    return parsed;
  }
  void feedback(std::uint32_t source, std::uint32_t fb_req, std::vector<wire::SimRecord> records,
                std::uint32_t hold_us = 0) {
    wire::SimFeedback feedback;
    feedback.session = 9;
    feedback.source = source;
    feedback.fb_req = fb_req;
    feedback.hold_us = hold_us;
    feedback.record_count = static_cast<std::uint8_t>(records.size());
    std::copy(records.begin(), records.end(), feedback.records.begin());
    std::array<std::byte, wire::SimFeedback::kMaxBytes> message;
    const std::size_t length = wire::write(feedback, message);
    sender_->receive(now_, {{message.data(), length}, 80, false, source}, sink_);
  }
  static wire::SimRecord report(Rank rank, bool congested, double mbit = 1) {
    const auto rate = static_cast<std::uint32_t>(mbit * 125e3);
    return {rank, 1, congested ? 1u : 0u, rate, rate, 1};
  }
  // Runs the timers until the next request is out, then waits `rtt_ms` for the answers.
  void next_request(double rtt_ms = 40) {
    const std::uint32_t before = sender_->fb_req();
    while (sender_->fb_req() == before) {
      now_ = sender_->next_timer();
      sender_->timer(now_, sink_);
    }
    data(0);
    now_ = now_ + Duration::seconds(rtt_ms * 1e-3);
  }
  // A round with one record from each of the sources 1, 2, ...
  void round(const std::vector<wire::SimRecord>& records) {
    next_request();
    std::uint32_t source = 0;
    for (const wire::SimRecord& record : records) feedback(++source, sender_->fb_req(), {record});
  }
  // Makes the sources of the following rounds known to the sender.
  void introduce(unsigned sources) {
    data(0);
    now_ = now_ + Duration::milliseconds(40);
    for (std::uint32_t source = 1; source <= sources; ++source) {
      wire::SimRecord quiet = report(0, false);
      quiet.reports = 0;
      feedback(source, sender_->fb_req(), {quiet});
    }
  }

  RecordingSink sink_;
  std::unique_ptr<Sender> sender_;
  Time now_ = at_ms(5000);
  Rate initial_;
  double increase_ = 0;  // bytes/s
  double delta_ = 0;
};

TEST_F(SimSender, AGroupRunsFromItsFirstToItsLastSubscriber) {
  sender_ = std::make_unique<Sender>(sim_config(3));
  sender_->start(now_, sink_);
  EXPECT_TRUE(sink_.rates.empty());
  EXPECT_TRUE(sender_->next_timer().is_never());
  sender_->membership(now_, 0, sink_);
  EXPECT_GT(sink_.rates[0], Rate::zero());
  EXPECT_EQ(sink_.rates.count(1), 0u);
  sender_->membership(now_, 2, sink_);
  EXPECT_GT(sink_.rates[2], Rate::zero());
  sender_->membership(now_, 1, sink_);
  EXPECT_EQ(sink_.rates[2], Rate::zero());
  sender_->membership(now_, -1, sink_);
  EXPECT_EQ(sink_.rates[0], Rate::zero());
  EXPECT_TRUE(sender_->next_timer().is_never());
}

// What a receiver gets depends only on the reports of its own group, whatever the groups below do.
TEST_F(SimSender, AddsOrMultipliesTheCumulativeRateByTheReportsOfEachGroup) {
  make(3);
  introduce(3);
  round({report(0, false), report(1, true), report(2, false)});
  const double initial = initial_.bytes_per_second();
  const Rate c0 = sender_->rate(0);
  const Rate c1 = c0 + sender_->rate(1);
  const Rate c2 = c1 + sender_->rate(2);
  EXPECT_DOUBLE_EQ(c0.bytes_per_second(), initial + increase_);
  EXPECT_DOUBLE_EQ(c1.bytes_per_second(), 2 * initial * delta_);
  EXPECT_DOUBLE_EQ(c2.bytes_per_second(), 3 * initial + increase_);
  EXPECT_EQ(sink_.rates[1], sender_->rate(1));
  EXPECT_EQ(data(1).group_rate, std::lround(c1.bytes_per_second()));
}

TEST_F(SimSender, AGroupBetweenTwoOthersKeepsItsFloor) {
  make(2);
  introduce(2);
  for (int i = 0; i < 200; ++i) round({report(0, false), report(1, true)});
  const double floor = sim_config(2).parameters.get("sim.min_rate") / 8;
  EXPECT_DOUBLE_EQ(sender_->rate(1).bytes_per_second(), floor);
  const Rate cumulative = sender_->rate(0) + sender_->rate(1);
  EXPECT_EQ(data(1).group_rate, std::lround(cumulative.bytes_per_second()));
}

TEST_F(SimSender, AdjustsEachGroupsOwnRateWhereAsked) {
  make(3, {"sim.cumulative=0"});
  introduce(3);
  round({report(0, false), report(1, true), report(2, false)});
  EXPECT_DOUBLE_EQ(sender_->rate(0).bytes_per_second(), initial_.bytes_per_second() + increase_);
  EXPECT_DOUBLE_EQ(sender_->rate(1).bytes_per_second(), initial_.bytes_per_second() * delta_);
  EXPECT_DOUBLE_EQ(sender_->rate(2).bytes_per_second(), initial_.bytes_per_second() + increase_);
  EXPECT_EQ(sink_.rates[1], sender_->rate(1));
}

TEST_F(SimSender, AGroupWithoutReportsHolds) {
  make(3);
  introduce(1);
  round({report(0, false)});
  EXPECT_GT(sender_->rate(0), initial_);
  EXPECT_EQ(sender_->rate(0) + sender_->rate(1), initial_ * 2);
  EXPECT_EQ(sender_->rate(2), initial_);
}

TEST_F(SimSender, AggregatedRecordsAreSummedByRank) {
  make(3);
  introduce(2);
  next_request();
  feedback(1, sender_->fb_req(), {{0, 10, 0, 1000, 2000, 10}, {2, 4, 4, 5000, 6000, 4}});
  feedback(2, sender_->fb_req(), {{0, 5, 1, 900, 1500, 5}, {2, 3, 2, 5000, 9000, 3}});
  EXPECT_LT(sender_->rate(0), initial_);  // 1 of 15
  EXPECT_GT(sender_->rate(2), initial_);  // 6 of 7, not all
}

TEST_F(SimSender, FinishesWhenAllHaveAnsweredAndIgnoresDuplicates) {
  make(1);
  introduce(2);
  next_request();
  const std::uint32_t request = sender_->fb_req();
  const std::uint16_t epoch = data(0).rate_epoch;
  feedback(1, request, {report(0, false)});
  feedback(1, request, {report(0, true)});
  EXPECT_EQ(data(0).rate_epoch, epoch);
  feedback(2, request, {report(0, false)});
  EXPECT_EQ(data(0).rate_epoch, static_cast<std::uint16_t>(epoch + 1));
  EXPECT_GT(sender_->rate(0), initial_);
  EXPECT_EQ(data(0).fb_req, request);  // SIM 3.1: the next request comes one maximum RTT later
  EXPECT_EQ(sender_->next_timer(), now_ + sender_->max_rtt());
}

TEST_F(SimSender, EstimatesTheMaximumRttWithoutTheHold) {
  make(1);
  introduce(2);
  for (int i = 0; i < 40; ++i) {
    next_request(90);
    feedback(1, sender_->fb_req(), {report(0, false)}, 60'000);
    feedback(2, sender_->fb_req(), {report(0, false)}, 40'000);
  }
  EXPECT_NEAR(sender_->max_rtt().seconds(), 0.050, 0.0005);
}

// A receiver behind a long queue answers too late for its round. The timer must grow until it is
// heard.
TEST_F(SimSender, LateFeedbackLengthensTheTimer) {
  make(1);
  introduce(2);
  std::uint32_t heard = 0;
  for (int i = 0; i < 40; ++i) {
    next_request(40);
    const std::uint32_t request = sender_->fb_req();
    feedback(1, request, {report(0, false)});
    const Time due = now_ + Duration::milliseconds(400);
    while (sender_->fb_req() == request && sender_->next_timer() < due) {
      now_ = sender_->next_timer();
      sender_->timer(now_, sink_);
    }
    now_ = std::max(now_, due);
    const std::uint16_t epoch = data(0).rate_epoch;
    feedback(2, request, {report(0, true)});
    heard += data(0).rate_epoch != epoch ? 1 : 0;
  }
  EXPECT_GE(heard, 10u);
  EXPECT_GT(sender_->max_rtt(), Duration::milliseconds(200));
}

TEST_F(SimSender, AllFeedbackLostMakesAllRatesFall) {
  make(3);
  introduce(1);
  const double min_rate = sim_config(1).parameters.get("sim.min_rate") / 8;
  next_request();
  next_request();
  EXPECT_EQ(sender_->rate(0), initial_);
  for (int i = 0; i < 100; ++i) next_request();
  for (Rank k = 0; k < 3; ++k) EXPECT_DOUBLE_EQ(sender_->rate(k).bytes_per_second(), min_rate);
  EXPECT_EQ(sender_->children(), 0u);
}

TEST_F(SimSender, AByeEndsTheWaitForItsSource) {
  make(1);
  introduce(2);
  next_request();
  feedback(1, sender_->fb_req(), {report(0, false)});
  EXPECT_EQ(sender_->rate(0), initial_);
  feedback(2, sender_->fb_req(), {{0, 0, 0, 0, 0, 0}});
  EXPECT_GT(sender_->rate(0), initial_);
  EXPECT_EQ(sender_->children(), 1u);
}

TEST_F(SimSender, TheMenuLimitsMiddleGroups) {
  make(5, {"sim.menu_interval=2s", "sim.initial_rate=2Mbit/s"});
  introduce(5);
  for (int i = 0; i < 40; ++i) {
    round({report(0, false, 1), report(1, false, 2), report(2, false, 3), report(3, false, 4),
           report(4, true, 6)});
  }
  ASSERT_TRUE(sender_->menu().active);
  Rate cumulative = sender_->rate(0);
  // Here layer 0 alone exceeds the first limits: the middle groups go down to the minimum, not
  // below.
  for (Rank k = 1; k <= 3; ++k) {
    cumulative += sender_->rate(k);
    const Rate floor = Rate::bits_per_second(sim_config(1).parameters.get("sim.min_rate"));
    EXPECT_TRUE(cumulative <= sender_->menu().limit[k] * 1.0001 ||
                sender_->rate(k) <= floor * 1.0001)
        << "layer " << int{k};
  }
}

TEST_F(SimSender, NumbersWrapInTheHeaders) {
  make(1);
  introduce(1);
  const wire::SimData first = data(0);
  const wire::SimData second = data(0);
  EXPECT_EQ(second.seq, first.seq + 1);
  round({report(0, true)});  // from here on, each round has one epoch and one request
  const wire::SimData start = data(0);
  for (int i = 0; i < 70'000; ++i) round({report(0, true)});  // rate_epoch wraps at 65,536
  EXPECT_EQ(data(0).rate_epoch, static_cast<std::uint16_t>(start.rate_epoch + 70'000));
  EXPECT_EQ(data(0).fb_req, start.fb_req + 70'000);
}

TEST_F(SimSender, WritesNothingForALayerThatDoesNotExistOrIntoTooShortAMessage) {
  make(2);
  std::array<std::byte, 100> message;
  EXPECT_EQ(sender_->write_data(now_, 2, message), 0u);
  EXPECT_EQ(sender_->write_data(now_, 0, std::span(message).first(31)), 0u);
}

TEST_F(SimSender, CountsWhatItRefuses) {
  make(2, {"sim.max_children=1"});
  next_request();
  const std::uint32_t request = sender_->fb_req();
  feedback(1, request, {report(0, false)});
  next_request();
  EXPECT_EQ(sender_->invalid(), 0u);  // a first answer, and then the timer

  feedback(1, sender_->fb_req() + 1, {report(0, false)});   // not requested yet
  feedback(1, sender_->fb_req() - 40, {report(0, false)});  // requested long ago
  feedback(1, sender_->fb_req(), {report(2, false)});       // no such layer
  feedback(2, sender_->fb_req(), {report(0, false)});       // one child more than allowed
  sender_->receive(now_, {{}, 28, false, 1}, sink_);        // an empty message
  EXPECT_EQ(sender_->invalid(), 4u);
  EXPECT_EQ(sender_->implausible(), 1u);  // the first of them

  feedback(1, request, {report(0, false)});            // late, but the child is known
  feedback(1, sender_->fb_req(), {report(0, false)});  // the answer; it ends the round
  feedback(1, sender_->fb_req(), {report(0, false)});  // again
  EXPECT_EQ(sender_->invalid(), 4u);
  EXPECT_EQ(sender_->implausible(), 1u);
}

TEST_F(SimSender, AReceiverSpeaksForItselfAndASwitchForThoseBelowIt) {
  const auto counts = [](std::uint32_t receivers) {
    wire::SimRecord record = report(0, true);
    record.reports = record.congested = record.receivers = receivers;
    return record;
  };
  make(1, {}, {{1, 1}, {2, 2}, {9, 9, 3}});  // 9 is a switch with three receivers below it
  const auto adjusted = [&](std::uint32_t source, std::uint32_t receivers) {
    next_request();
    const Rate before = sender_->rate(0);
    feedback(source, sender_->fb_req(), {counts(receivers)});
    next_request();
    return sender_->rate(0) < before;
  };
  EXPECT_TRUE(adjusted(1, 1));
  EXPECT_TRUE(adjusted(9, 6));  // each may have left and come back
  EXPECT_EQ(sender_->implausible(), 0u);
  EXPECT_FALSE(adjusted(1, 2));
  EXPECT_EQ(sender_->implausible(), 1u);
  EXPECT_TRUE(adjusted(9, 7));  // counted, but the others below it are heard
  EXPECT_EQ(sender_->implausible(), 2u);
}

TEST_F(SimSender, ForgedFeedbackKeepsRatesAndTimersInBounds) {
  make(5, {"sim.max_rate=10Mbit/s", "sim.max_children=100", "sim.menu_interval=100ms"});
  const Rate max = Rate::mbit_per_second(10);
  Rng rng(5);
  for (int i = 0; i < 100'000; ++i) {
    wire::SimFeedback forged;
    forged.session = 9;
    forged.source = static_cast<std::uint32_t>(rng.below(200));
    forged.fb_req = sender_->fb_req() - static_cast<std::uint32_t>(rng.below(3));
    forged.hold_us = rng.uniform() < 0.5 ? 0 : static_cast<std::uint32_t>(rng.next());
    forged.subtree_rtt_us = rng.uniform() < 0.5 ? 0 : static_cast<std::uint32_t>(rng.next());
    forged.record_count = static_cast<std::uint8_t>(rng.below(9));
    for (std::uint8_t k = 0; k < forged.record_count; ++k) {
      const auto any = [&] { return static_cast<std::uint32_t>(rng.next()); };
      forged.records[k] = {k, any(), any() / 2, any() / 2, any(), any()};
    }
    std::array<std::byte, wire::SimFeedback::kMaxBytes> message;
    std::size_t length = wire::write(forged, message);
    if (rng.uniform() < 0.1) length = rng.below(length + 1);
    sender_->receive(now_, {{message.data(), length}, 80, false, 0}, sink_);
    if (rng.uniform() < 0.2) data(static_cast<Rank>(rng.below(5)));
    if (rng.uniform() < 0.3) {
      now_ = now_ + Duration::milliseconds(static_cast<std::int64_t>(rng.below(300)));
      sender_->timer(now_, sink_);
    }
    ASSERT_LE(sender_->children(), 100u);
    ASSERT_LE(sender_->next_timer() - now_, Duration::seconds(10));
    for (Rank k = 0; k < 5; ++k) {
      ASSERT_TRUE(std::isfinite(sender_->rate(k).bytes_per_second()));
      ASSERT_GT(sender_->rate(k), Rate::zero());
      ASSERT_LE(sender_->rate(k), max);
    }
  }
}

}  // namespace
}  // namespace tiercast::sim
