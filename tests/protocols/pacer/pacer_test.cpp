#include "protocols/pacer/pacer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "protocols/base/rng.h"
#include "tests/protocols/pacer/exact_caller.h"

namespace tiercast {
namespace {

TEST(Pacer, StartsAtOnceAndKeepsTheInterval) {
  Pacer pacer(1);
  EXPECT_TRUE(pacer.next_departure().is_never());
  pacer.set_rate(ms(100), 0, interval(4), kBytes);
  std::vector<Time> dues;
  run_exactly(pacer, ms(120), [&](const Pacer::Departure& d, Time) { dues.push_back(d.due); });
  ASSERT_EQ(dues.size(), 6u);
  for (std::size_t i = 0; i < dues.size(); ++i)
    EXPECT_EQ(dues[i], ms(100 + 4.0 * static_cast<double>(i)));
}

// 3,000,000 intervals of 333.3.. us: rounding each by 0.33 ns would add up to a millisecond.
TEST(Pacer, RoundingDoesNotAccumulate) {
  Pacer pacer(1);
  pacer.set_rate(Time::zero(), 0, Rate::bytes_per_second(3'000'000), kBytes);
  std::uint64_t count = 0;
  Time last;
  run_exactly(pacer, ms(1'000'000), [&](const Pacer::Departure& d, Time) {
    ++count;
    last = d.due;
  });
  EXPECT_NEAR(static_cast<double>(count), 3'000'001, 1);
  EXPECT_NEAR(last.seconds(), 1000, 1e-3);
}

TEST(Pacer, AChangeOfRateRescalesTheRemainingWait) {
  Pacer pacer(1);
  pacer.set_rate(ms(0), 0, interval(8), kBytes);
  ASSERT_TRUE(pacer.pop(ms(0)));
  pacer.set_rate(ms(2), 0, interval(4), kBytes);  // 6 ms left of 8: now 3 ms of 4
  EXPECT_EQ(pacer.next_departure(), ms(5));
  pacer.set_rate(ms(4), 0, interval(40), kBytes);  // 1 ms left of 4: now 10 ms of 40
  EXPECT_FALSE(pacer.pop(ms(13.9)));
  EXPECT_TRUE(pacer.pop(ms(14)));
}

TEST(Pacer, AStoppedLayerIsSilentAndAFlappingOneGainsNothing) {
  Pacer pacer(2);
  pacer.set_rate(ms(0), 0, interval(10), kBytes);
  ASSERT_TRUE(pacer.pop(ms(0)));
  for (int i = 0; i < 10; ++i) {
    pacer.set_rate(ms(1), 0, Rate::zero(), kBytes);
    EXPECT_TRUE(pacer.next_departure().is_never());
    pacer.set_rate(ms(1), 0, interval(10), kBytes);
  }
  EXPECT_EQ(pacer.next_departure(), ms(10));
  pacer.set_rate(ms(1), 0, Rate::zero(), kBytes);
  pacer.set_rate(ms(50), 0, interval(10), kBytes);
  EXPECT_EQ(pacer.next_departure(), ms(50));
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    pacer.set_rate(ms(50), 0, Rate::bytes_per_second(bad), kBytes);
    EXPECT_TRUE(pacer.next_departure().is_never());
  }
  pacer.set_rate(ms(50), 7, interval(10), kBytes);  // no such layer
  EXPECT_TRUE(pacer.next_departure().is_never());
}

TEST(Pacer, AfterAStallAtMostTwoLeaveBackToBack) {
  for (const double stall_ms : {8.1, 11.9, 12.0, 100.0, 10'000.0}) {
    Pacer pacer(1);
    pacer.set_rate(ms(0), 0, interval(4), kBytes);
    ASSERT_TRUE(pacer.pop(ms(0)));
    unsigned burst = 0;
    while (pacer.pop(ms(stall_ms))) ++burst;
    EXPECT_EQ(burst, Pacer::kMaxBurst) << stall_ms;
    EXPECT_EQ(pacer.next_departure(), ms(stall_ms + 4)) << stall_ms;
  }
}

TEST(Pacer, ALittleLatenessLosesNothing) {
  Pacer pacer(1);
  pacer.set_rate(ms(0), 0, interval(4), kBytes);
  Rng rng(1);
  unsigned count = 0;
  for (double t = 0; t < 4000; t += 4) {
    while (pacer.pop(ms(t + 3.9 * rng.uniform()))) ++count;
  }
  EXPECT_EQ(count, 1000u);
}

TEST(Pacer, LayersDueTogetherTakeTurns) {
  Pacer pacer(3);
  for (Pacer::Layer layer = 0; layer < 3; ++layer)
    pacer.set_rate(ms(0), layer, interval(4), kBytes);
  std::vector<Pacer::Layer> order;
  // Two intervals late, each layer owes two packets, and sends the second one only when all have
  // sent one.
  ASSERT_TRUE(pacer.next_departure() <= ms(6));
  while (const auto departure = pacer.pop(ms(6))) order.push_back(departure->layer);
  EXPECT_EQ(order, (std::vector<Pacer::Layer>{0, 1, 2, 0, 1, 2}));
}

// Over random rates, changes and starts: packets are never early, the wheel never makes them late
// by more than a tick, they come in the order of their due times to within a tick, and their number
// follows from the rates.
TEST(Pacer, PropertiesHoldOverRandomChanges) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    constexpr std::uint32_t kLayers = 50;
    Pacer pacer(kLayers);
    std::vector<double> rate(kLayers, 0);      // packets/s
    std::vector<double> expected(kLayers, 0);  // packets
    std::vector<double> sent(kLayers, 0);
    std::vector<double> changes(kLayers, 0);
    Time last_due;
    Time now = Time::nanoseconds(static_cast<std::int64_t>(rng.below(1'000'000'000'000'000)));
    const auto departed = [&](const Pacer::Departure& d, Time at) {
      ++sent[d.layer];
      EXPECT_LE(d.due, at);
      EXPECT_LT(at - d.due, Pacer::kTick);
      EXPECT_GT(d.due + Pacer::kTick, last_due);
      last_due = d.due;
    };
    last_due = now;
    for (int step = 0; step < 300; ++step) {
      const auto layer = static_cast<std::uint32_t>(rng.below(kLayers));
      rate[layer] = rng.uniform() < 0.2
                        ? 0
                        : std::pow(10, rng.uniform() * 6 - 1);  // 0.1 .. 100,000 packets/s
      ++changes[layer];
      pacer.set_rate(now, layer, Rate::bytes_per_second(rate[layer] * kBytes), kBytes);
      const Duration wait =
          Duration::seconds(std::pow(10, rng.uniform() * 4 - 6));  // 1 us .. 10 ms
      run_exactly(pacer, now + wait, departed);
      for (std::uint32_t k = 0; k < kLayers; ++k) expected[k] += rate[k] * wait.seconds();
      now = now + wait;
    }
    for (std::uint32_t k = 0; k < kLayers; ++k) {
      // Each start sends one packet at once or waits for an interval; each change keeps the phase.
      EXPECT_NEAR(sent[k], expected[k], 1 + changes[k]) << "layer " << k;
    }
  }
}

TEST(Pacer, SlowAndFarLayersAreFound) {
  Pacer pacer(3);
  pacer.set_rate(ms(0), 0, interval(30'000), kBytes);              // above 17 s: the third level
  pacer.set_rate(ms(0), 1, interval(3'600'000), kBytes);           // an hour
  pacer.set_rate(ms(0), 2, Rate::bytes_per_second(1e-9), kBytes);  // limited to a day
  std::map<Pacer::Layer, int> count;
  run_exactly(pacer, ms(86'400e3), [&](const Pacer::Departure& d, Time at) {
    ++count[d.layer];
    EXPECT_LT(at - d.due, Pacer::kTick);
  });
  EXPECT_EQ(count[0], 2881);
  EXPECT_EQ(count[1], 25);
  EXPECT_EQ(count[2], 2);
}

// A million departures. A pacer that searched through its layers would take hours. `make
// bench-protocols` measures the cost of a departure.
TEST(Pacer, AHundredThousandLayersGetTheirRates) {
  constexpr std::uint32_t kLayers = 100'000;
  Pacer pacer(kLayers);
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    pacer.set_rate(Time::nanoseconds(layer), layer, interval(100), kBytes);
  }
  std::vector<unsigned> sent(kLayers, 0);
  run_exactly(pacer, ms(1000), [&](const Pacer::Departure& d, Time) { ++sent[d.layer]; });
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) ASSERT_NEAR(sent[layer], 10, 1) << layer;
}

TEST(Pacer, RefusesLayerCountsOutOfRange) {
  EXPECT_THROW(Pacer(0), ConfigError);
  EXPECT_THROW(Pacer(1'000'001), ConfigError);
}

}  // namespace
}  // namespace tiercast
