#include "protocols/common/loss_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/common/rtt_estimator.h"

namespace tiercast {
namespace {

constexpr Duration kSpacing = Duration::milliseconds(10);  // between packets, unless given

// Packets at equal intervals, some of which are dropped.
class Stream {
 public:
  explicit Stream(const LossHistory::Options& options = {}, std::uint32_t seq = 1000)
      : history(options), seq_(seq) {}

  void send(unsigned packets, bool ce = false) {
    for (unsigned i = 0; i < packets; ++i) {
      const LossHistory::Report report = history.receive(now_, seq_, ce, window);
      lost += report.lost;
      events += report.events;
      firsts += report.first;
      drop(1);
    }
  }
  void drop(unsigned packets) {
    seq_ += packets;
    now_ = now_ + kSpacing * packets;
  }
  // Makes eight closed intervals of `length` and an open one of one packet.
  void fill(unsigned length) {
    send(length);
    for (int i = 0; i < 9; ++i) {
      drop(1);
      send(1);
      if (i == 0) history.set_first_interval(length);
      if (i < 8) send(length - 2);
    }
  }

  LossHistory history;
  Duration window = Duration::milliseconds(5);  // every loss is an event of its own
  std::uint32_t lost = 0;
  unsigned events = 0;
  unsigned firsts = 0;

 private:
  std::uint32_t seq_;
  Time now_ = Time::zero() + Duration::seconds(3);
};

// PROTOCOLS 0.3's check values.
TEST(LossHistory, AShortOpenIntervalDoesNotCount) {
  Stream stream;
  stream.fill(100);
  stream.send(48);
  ASSERT_EQ(stream.history.closed_intervals(), 8u);
  ASSERT_EQ(stream.history.open_interval(), 50u);
  EXPECT_NEAR(stream.history.loss_event_rate(), 0.0100, 1e-9);
  EXPECT_EQ(stream.events, 9u);
  EXPECT_EQ(stream.firsts, 1u);
}

TEST(LossHistory, ALongOpenIntervalCountsAsOneOfEight) {
  Stream stream({.discount_floor = 1});
  stream.fill(100);
  stream.send(298);
  ASSERT_EQ(stream.history.open_interval(), 300u);
  EXPECT_NEAR(stream.history.loss_event_rate(), 0.0075, 1e-9);
}

// RFC 5348, 5.4: k closed intervals of 100 are the sum from 1 to k, the open one and the k - 1
// latest of these the sum from 0 to k - 1; both have the weights w_0 to w_(k-1).
TEST(LossHistory, TheOpenIntervalTakesTheOldestOnesPlaceWhileThereAreFew) {
  Stream stream({.discount_floor = 1});
  stream.send(100);
  for (int closed = 1; closed <= 4; ++closed) {
    stream.drop(1);
    stream.send(1);
    if (closed == 1) stream.history.set_first_interval(100);
    stream.send(98);
    ASSERT_EQ(stream.history.open_interval(), 100u);
    EXPECT_NEAR(stream.history.loss_event_rate(), 0.01, 1e-12);
    LossHistory ahead = stream.history;
    std::uint32_t seq = 1000 + static_cast<std::uint32_t>(closed + 1) * 100;
    for (int i = 0; i < 200; ++i) ahead.receive(Time::zero(), seq++, false, stream.window);
    ASSERT_EQ(ahead.open_interval(), 300u);
    EXPECT_NEAR(ahead.loss_event_rate(), closed / (300.0 + 100 * (closed - 1)), 1e-12);
  }
}

// RFC 5348, 5.5: DF = 2 * 100 / 300, W = 1 + 5 DF, I = 300 + 5 * 100 DF.
TEST(LossHistory, DiscountsOldIntervalsWhileTheOpenOneIsLong) {
  Stream stream;
  stream.fill(100);
  stream.send(298);
  const double df = 200.0 / 300;
  EXPECT_NEAR(stream.history.loss_event_rate(), (1 + 5 * df) / (300 + 500 * df), 1e-9);
  // The event that ends the open interval keeps the discount of the earlier ones.
  stream.drop(1);
  stream.send(1);
  EXPECT_NEAR(stream.history.loss_event_rate(), (1 + 5 * df) / (300 + 500 * df), 1e-9);
}

TEST(LossHistory, TheDiscountHasAFloor) {
  for (const double floor : {0.25, 0.5}) {
    Stream stream({.discount_floor = floor});
    stream.fill(100);
    stream.send(3998);
    EXPECT_NEAR(stream.history.loss_event_rate(), (1 + 5 * floor) / (4000 + 500 * floor), 1e-9);
  }
}

TEST(LossHistory, LossesWithinARoundTripAreOneEvent) {
  Stream stream;
  stream.window = kSpacing * 10;
  stream.send(100);
  for (int i = 0; i < 5; ++i) {
    stream.drop(1);
    stream.send(1);
  }
  EXPECT_EQ(stream.events, 1u);
  EXPECT_EQ(stream.lost, 5u);
  stream.drop(1);  // ten intervals after the first, which is not later by more than the window
  stream.send(1);
  EXPECT_EQ(stream.events, 1u);
  stream.drop(1);
  stream.send(1);
  EXPECT_EQ(stream.events, 2u);
}

// RFC 5348, 5.2: the times of losses are interpolated, so a long gap contains several events.
TEST(LossHistory, ALongGapIsSeveralEvents) {
  Stream stream;
  stream.window = kSpacing * 9.5;
  stream.send(50);
  stream.drop(35);
  stream.send(1);
  EXPECT_EQ(stream.lost, 35u);
  EXPECT_EQ(stream.events, 4u);  // at the 1st, 11th, 21st and 31st lost packet
  EXPECT_EQ(stream.history.closed_interval(0), 10);
  EXPECT_EQ(stream.history.open_interval(), 6u);
}

TEST(LossHistory, MarksAreEventsWithoutALoss) {
  Stream stream;
  stream.window = kSpacing * 3;
  stream.send(100);
  stream.send(3, true);
  EXPECT_EQ(stream.events, 1u);
  EXPECT_EQ(stream.lost, 0u);
  stream.send(97);
  stream.send(1, true);
  EXPECT_EQ(stream.events, 2u);
  EXPECT_EQ(stream.history.closed_interval(0), 100);
}

TEST(LossHistory, TheFirstIntervalIsSynthesised) {
  Stream stream;
  stream.send(40);
  stream.drop(1);
  stream.send(1);
  EXPECT_NEAR(stream.history.loss_event_rate(), 1.0 / 40, 1e-12);
  stream.history.set_first_interval(200);
  EXPECT_NEAR(stream.history.loss_event_rate(), 1.0 / 200, 1e-12);
  EXPECT_EQ(stream.history.counted_first_interval(), 40);
  stream.history.set_first_interval(10);
  EXPECT_NEAR(stream.history.loss_event_rate(), 1.0 / 10, 1e-12);
  stream.history.set_first_interval(0.3);  // taken as 1; the open interval has 2
  EXPECT_NEAR(stream.history.loss_event_rate(), 1.0 / 2, 1e-12);
  stream.send(98);
  stream.drop(1);
  stream.send(1);
  stream.history.set_first_interval(300);  // a better value came later
  EXPECT_EQ(stream.history.closed_interval(0), 100);
  EXPECT_EQ(stream.history.closed_interval(1), 300);
  for (int i = 0; i < 8; ++i) {
    stream.send(98);
    stream.drop(1);
    stream.send(1);
  }
  const double before = stream.history.loss_event_rate();
  stream.history.set_first_interval(5000);  // the interval is forgotten by now
  EXPECT_EQ(stream.history.loss_event_rate(), before);
}

TEST(LossHistory, NoEventNoLoss) {
  Stream stream;
  EXPECT_EQ(stream.history.loss_event_rate(), 0);
  stream.history.set_first_interval(7);
  stream.send(1000);
  EXPECT_EQ(stream.history.loss_event_rate(), 0);
  EXPECT_EQ(stream.history.open_interval(), 1000u);
}

// PROTOCOLS 13.1: 2^32-3 .. 3 with one hole give exactly one loss.
TEST(LossHistory, CountsOneLossAcrossTheWrap) {
  Stream stream({}, 0xfffffffd);
  stream.send(3);
  stream.drop(1);
  stream.send(3);
  EXPECT_EQ(stream.lost, 1u);
  EXPECT_EQ(stream.events, 1u);
  EXPECT_EQ(stream.history.open_interval(), 4u);
}

TEST(LossHistory, AnIntervalMayBeLongerThanPacketNumbersReach) {
  Stream stream;
  stream.fill(100);
  stream.window = Duration::seconds(1e9);  // what is lost from here on is no new event
  constexpr double kSteps = 50'000;        // of 60,001 packets, 3 * 10^9 together
  for (int i = 0; i < static_cast<int>(kSteps); ++i) {
    stream.drop(60'000);
    stream.send(1);
  }
  const double open = 2 + kSteps * 60'001;
  EXPECT_EQ(stream.history.open_interval(), open);
  EXPECT_LT(stream.history.loss_event_rate(), 3 / open);
  stream.window = Duration::milliseconds(5);
  stream.drop(1);
  stream.send(1);
  EXPECT_EQ(stream.history.closed_interval(0), open);
}

// As its user does when the sender has restarted.
TEST(LossHistory, AResetForgetsTheNumbersToo) {
  Stream stream;
  stream.fill(100);
  stream.drop(100'000);
  stream.history.reset();
  const std::uint32_t lost = stream.lost;
  stream.send(1);
  EXPECT_EQ(stream.lost, lost);
  EXPECT_EQ(stream.history.events(), 0u);
  EXPECT_EQ(stream.history.loss_event_rate(), 0);
  stream.drop(1);
  stream.send(1);
  EXPECT_EQ(stream.firsts, 2u);
}

TEST(LossHistory, ToleratesReorderingAsFarAsAsked) {
  const std::vector<std::uint32_t> order = {0, 2, 1, 1, 5, 3, 4, 8, 7, 6, 10, 11, 9, 12, 13, 14};
  for (const unsigned later : {1u, 2u, 3u}) {
    LossHistory history({.later_packets = later});
    std::uint32_t lost = 0;
    Time now;
    for (const std::uint32_t seq : order) {
      lost += history.receive(now, 0xfffffff8 + seq, false, kSpacing).lost;
      now = now + kSpacing;
    }
    // 1 is overtaken by one packet, 3 and 4 by 5, 7 by 8, 6 by both, 9 by two.
    EXPECT_EQ(lost, later == 1 ? 6u : later == 2 ? 2u : 0u) << later;
  }
}

// A simple model: it keeps the whole list of lost packets and marks and walks it from the start.
TEST(LossHistory, AgreesWithTheWholeHistory) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const Duration window =
        Duration::microseconds(1 + static_cast<std::int64_t>(rng.below(200'000)));
    LossHistory history({.discount_floor = 1});
    std::vector<std::uint32_t> starts;
    Time event_at;
    Time before;
    std::uint32_t expected = 0;
    const auto congestion = [&](Time at, std::uint32_t seq) {
      if (!starts.empty() && at <= event_at + window) return;
      starts.push_back(seq);
      event_at = at;
    };
    Time now = Time::zero() + Duration::seconds(1);
    for (std::uint32_t seq = 0; seq < 3000; ++seq) {
      now = now + Duration::microseconds(1 + static_cast<std::int64_t>(rng.below(20'000)));
      if (seq > 0 && rng.uniform() < 0.05) continue;
      const bool ce = rng.uniform() < 0.01;
      history.receive(now, seq, ce, window);
      for (std::uint32_t lost = expected; lost < seq; ++lost) {
        const Duration step = (now - before) * (1.0 / (seq - expected + 1.0));
        congestion(before + step * (lost - expected + 1.0), lost);
      }
      if (ce) congestion(now, seq);
      before = now;
      expected = seq + 1;
    }
    ASSERT_EQ(history.events(), starts.size());
    for (std::size_t i = 0; i < std::min<std::size_t>(8, starts.size() - 1); ++i) {
      EXPECT_EQ(history.closed_interval(i),
                std::max(1u, starts[starts.size() - 1 - i] - starts[starts.size() - 2 - i]));
    }
    EXPECT_GT(history.loss_event_rate(), 0);
    EXPECT_LE(history.loss_event_rate(), 1);
  }
}

// RFC 6298, 2.2 and 2.3.
TEST(RttEstimator, HasTcpsGains) {
  RttEstimator rtt;
  EXPECT_FALSE(rtt.valid());
  rtt.update(Duration::milliseconds(100));
  EXPECT_EQ(rtt.srtt(), Duration::milliseconds(100));
  EXPECT_EQ(rtt.rttvar(), Duration::milliseconds(50));
  EXPECT_EQ(rtt.timeout(), Duration::milliseconds(300));
  rtt.update(Duration::milliseconds(180));
  EXPECT_EQ(rtt.srtt(), Duration::milliseconds(110));
  EXPECT_NEAR(rtt.rttvar().seconds(), 0.0575, 1e-9);  // the error is taken before srtt moves
  rtt.reset();
  EXPECT_FALSE(rtt.valid());
}

}  // namespace
}  // namespace tiercast
