#include "protocols/pacer/line_pacer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "protocols/base/rng.h"

namespace tiercast {
namespace {

constexpr std::uint32_t kBytes = 1000;

Time ns(std::int64_t t) { return Time::nanoseconds(t); }
Time ms(double t) { return Time::zero() + Duration::seconds(t * 1e-3); }
Rate interval(double t_ms) { return Rate::bytes_per_second(kBytes / (t_ms * 1e-3)); }

// A caller that is never late.
template <typename Departed>
void run_exactly(LinePacer& pacer, Time end, Departed departed) {
  while (pacer.next_departure() <= end) {
    const Time now = pacer.next_departure();
    while (const auto departure = pacer.pop(now)) departed(*departure, now);
  }
}

TEST(LinePacer, StartsAtOnceAndKeepsTheInterval) {
  LinePacer pacer(1);
  EXPECT_TRUE(pacer.next_departure().is_never());
  pacer.set_rate(ms(100), 0, interval(4), kBytes);
  std::vector<Time> dues;
  run_exactly(pacer, ms(120), [&](const LinePacer::Departure& d, Time) { dues.push_back(d.due); });
  ASSERT_EQ(dues.size(), 6u);
  for (std::size_t i = 0; i < dues.size(); ++i)
    EXPECT_EQ(dues[i], ms(100 + 4.0 * static_cast<double>(i)));
}

// From one packet in ten seconds to one in 40 ns: as many as the rate says over twenty intervals or
// 20 ms, none early, and no rounding that adds up.
TEST(LinePacer, EveryRateFromTenSecondsToFortyNanoseconds) {
  for (const double per_second : {0.1, 1.0, 33.0, 1e3, 150.7, 1e6, 14'880'952.0, 25e6}) {
    LinePacer pacer(3);
    const Time start = ns(123'456'789'012'345);
    pacer.set_rate(start, 1, Rate::bytes_per_second(per_second * kBytes), kBytes);
    const Duration length = Duration::seconds(std::max(20 / per_second, 0.02));
    double count = 0;
    run_exactly(pacer, start + length, [&](const LinePacer::Departure& d, Time now) {
      EXPECT_LE(d.due, now);
      EXPECT_NEAR(static_cast<double>((d.due - start).ns()), count * 1e9 / per_second, 2.0);
      ++count;
    });
    EXPECT_NEAR(count, length.seconds() * per_second + 1, 1.0) << per_second;
  }
}

TEST(LinePacer, AChangeOfRateRescalesTheRemainingWait) {
  LinePacer pacer(1);
  pacer.set_rate(ms(0), 0, interval(8), kBytes);
  ASSERT_TRUE(pacer.pop(ms(0)));
  pacer.set_rate(ms(2), 0, interval(4), kBytes);  // 6 ms left of 8: now 3 ms of 4
  EXPECT_FALSE(pacer.pop(ns(4'999'999)));
  EXPECT_EQ(pacer.next_departure(), ms(5));
  pacer.set_rate(ms(4), 0, interval(40), kBytes);  // 1 ms left of 4: now 10 ms of 40
  EXPECT_FALSE(pacer.pop(ms(13.9)));
  EXPECT_TRUE(pacer.pop(ms(14)));
}

TEST(LinePacer, AStoppedLayerIsSilentAndAFlappingOneGainsNothing) {
  LinePacer pacer(2);
  pacer.set_rate(ms(0), 0, interval(10), kBytes);
  ASSERT_TRUE(pacer.pop(ms(0)));
  for (int i = 0; i < 10; ++i) {
    pacer.set_rate(ms(1), 0, Rate::zero(), kBytes);
    EXPECT_TRUE(pacer.next_departure().is_never());
    pacer.set_rate(ms(1), 0, interval(10), kBytes);
  }
  EXPECT_FALSE(pacer.pop(ms(9.9999)));
  EXPECT_EQ(pacer.next_departure(), ms(10));
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    pacer.set_rate(ms(9.9999), 0, Rate::bytes_per_second(bad), kBytes);
    EXPECT_EQ(pacer.running(), 0u);
  }
  pacer.set_rate(ms(50), 7, interval(10), kBytes);  // does not exist
  EXPECT_TRUE(pacer.next_departure().is_never());
}

TEST(LinePacer, AfterAStallAtMostTwoLeaveBackToBackAndTheRestIsCounted) {
  for (const double stall_ms : {8.1, 11.9, 12.0, 100.0, 10'000.0}) {
    LinePacer pacer(1);
    pacer.set_rate(ms(0), 0, interval(4), kBytes);
    ASSERT_TRUE(pacer.pop(ms(0)));
    unsigned burst = 0;
    while (pacer.pop(ms(stall_ms))) ++burst;
    EXPECT_EQ(burst, 2u) << stall_ms;
    // One interval on, or, where two packets made good all that was lost, the old schedule.
    EXPECT_FALSE(pacer.pop(ms(std::min(stall_ms + 4, 12.0) - 0.01))) << stall_ms;
    EXPECT_TRUE(pacer.pop(ms(stall_ms + 4))) << stall_ms;
    const double owed = std::floor(stall_ms / 4) - 2;
    EXPECT_NEAR(static_cast<double>(pacer.given_up()), owed, 1) << stall_ms;
  }
}

// 100 us are taken away, 1,488 intervals of 67.2 ns. Never two packets closer than three quarters of
// an interval, but for the one burst of two; and after a millisecond the count is that of the rate.
TEST(LinePacer, AFastLayerMakesAShortStallGoodWithoutABurst) {
  LinePacer pacer(1);
  const double per_second = 14'880'952;
  pacer.set_rate(ns(0), 0, Rate::bytes_per_second(per_second * kBytes), kBytes);
  double count = 0;
  std::int64_t last = -1000;
  unsigned close = 0;
  for (std::int64_t now = 0; now < 2'000'000; now += now == 500'000 ? 100'000 : 5) {
    while (pacer.pop(ns(now))) {
      ++count;
      close += now - last < 45 ? 1 : 0;  // 50.4 ns less the step of this clock
      last = now;
    }
  }
  EXPECT_NEAR(count, 2e-3 * per_second, 4);
  EXPECT_LE(close, 1u);
  EXPECT_EQ(pacer.given_up(), 0u);
}

TEST(LinePacer, LayersDueTogetherTakeTurns) {
  LinePacer pacer(3);
  for (LinePacer::Layer layer = 0; layer < 3; ++layer)
    pacer.set_rate(ms(0), layer, interval(4), kBytes);
  std::vector<LinePacer::Layer> order;
  while (const auto departure = pacer.pop(ms(6))) order.push_back(departure->layer);
  EXPECT_EQ(order, (std::vector<LinePacer::Layer>{0, 1, 2, 0, 1, 2}));
}

// An overloaded caller, which serves one packet in 50 ns where 60 M a second are due: every layer of
// one rate gets the same share.
TEST(LinePacer, UnderOverloadLayersOfOneRateGetEqualShares) {
  constexpr std::uint32_t kLayers = 600;
  LinePacer pacer(kLayers);
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    pacer.set_rate(ns(layer), layer, Rate::bytes_per_second(1e5 * kBytes), kBytes);
  }
  std::vector<int> sent(kLayers, 0);
  for (std::int64_t now = 0; now < 20'000'000; now += 50) {
    if (const auto d = pacer.pop(ns(now))) ++sent[d->layer];
  }
  for (const int count : sent) EXPECT_NEAR(count, 400'000 / 600, 12);
  EXPECT_GT(pacer.given_up(), 0u);
}

// Over random rates, changes, starts and idle times: never early, in the order of due times, and as
// many packets as the rates amount to.
TEST(LinePacer, PropertiesHoldOverRandomChanges) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    constexpr std::uint32_t kLayers = 50;
    LinePacer pacer(kLayers);
    std::vector<double> rate(kLayers, 0), expected(kLayers, 0), sent(kLayers, 0),
        changes(kLayers, 0);
    Time now = ns(static_cast<std::int64_t>(rng.below(1'000'000'000'000'000)));
    Time last_due = now;
    const auto departed = [&](const LinePacer::Departure& d, Time at) {
      ++sent[d.layer];
      EXPECT_EQ(d.due, at);
      EXPECT_GE(d.due, last_due);
      last_due = d.due;
    };
    for (int step = 0; step < 300; ++step) {
      const auto layer = static_cast<std::uint32_t>(rng.below(kLayers));
      // 0.01 .. 100,000 packets/s
      rate[layer] = rng.uniform() < 0.2 ? 0 : std::pow(10, rng.uniform() * 7 - 2);
      ++changes[layer];
      pacer.set_rate(now, layer, Rate::bytes_per_second(rate[layer] * kBytes), kBytes);
      // 1 us .. 10 ms, at times minutes
      const bool idle = step % 100 == 99;
      if (idle) {
        for (std::uint32_t k = 0; k < kLayers; ++k) {
          if (rate[k] < 10) continue;
          rate[k] = 0;
          ++changes[k];
          pacer.set_rate(now, k, Rate::zero(), kBytes);
        }
      }
      const Duration wait = Duration::seconds(std::pow(10, rng.uniform() * 4 - (idle ? 1 : 6)));
      run_exactly(pacer, now + wait, departed);
      for (std::uint32_t k = 0; k < kLayers; ++k) expected[k] += rate[k] * wait.seconds();
      now = now + wait;
      pacer.pop(now);
      last_due = std::max(last_due, now - Duration::seconds(1));
    }
    for (std::uint32_t k = 0; k < kLayers; ++k) {
      EXPECT_NEAR(sent[k], expected[k], 1 + changes[k]) << "layer " << k;
    }
  }
}

TEST(LinePacer, SlowAndFarLayersAreFound) {
  LinePacer pacer(3);
  pacer.set_rate(ms(0), 0, interval(30'000), kBytes);
  pacer.set_rate(ms(0), 1, interval(3'600'000), kBytes);           // an hour
  pacer.set_rate(ms(0), 2, Rate::bytes_per_second(1e-9), kBytes);  // held to a day
  std::map<LinePacer::Layer, int> count;
  for (double now = 0; now <= 86'400e3; now += 50) {
    while (const auto d = pacer.pop(ms(now))) {
      ++count[d->layer];
      EXPECT_LE(ms(now) - d->due, Duration::milliseconds(50));
    }
  }
  EXPECT_EQ(count[0], 2881);
  EXPECT_EQ(count[1], 25);
  EXPECT_EQ(count[2], 2);
}

TEST(LinePacer, AHundredThousandLayersGetTheirRates) {
  constexpr std::uint32_t kLayers = 100'000;
  LinePacer pacer(kLayers);
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    pacer.set_rate(ns(layer), layer, interval(100), kBytes);
  }
  std::vector<unsigned> sent(kLayers, 0);
  run_exactly(pacer, ms(1000), [&](const LinePacer::Departure& d, Time) { ++sent[d.layer]; });
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) ASSERT_NEAR(sent[layer], 10, 1) << layer;
}

TEST(LinePacer, RefusesImpossibleSizes) {
  EXPECT_THROW(LinePacer(0), ConfigError);
  EXPECT_THROW(LinePacer(1'000'001), ConfigError);
}

}  // namespace
}  // namespace tiercast
