#include "protocols/pacer/line_pacer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "protocols/base/rng.h"
#include "tests/protocols/pacer/exact_caller.h"

namespace tiercast {
namespace {

Time ns(std::int64_t t) { return Time::nanoseconds(t); }

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

// From one packet in ten seconds to one in 40 ns: the rate is met over twenty intervals or 20 ms,
// no packet is early, and rounding does not accumulate.
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
  pacer.set_rate(ms(50), 7, interval(10), kBytes);  // no such layer
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
    // One interval after the burst, or the old schedule if two packets made up for all that was
    // lost.
    EXPECT_FALSE(pacer.pop(ms(std::min(stall_ms + 4, 12.0) - 0.01))) << stall_ms;
    EXPECT_TRUE(pacer.pop(ms(stall_ms + 4))) << stall_ms;
    const double owed = std::floor(stall_ms / 4) - 2;
    EXPECT_NEAR(static_cast<double>(pacer.given_up()), owed, 1) << stall_ms;
  }
}

// 100 us are lost, which are 1,488 intervals of 67.2 ns. Two packets are never closer than half an
// interval, except in the one burst of two. After a millisecond the count is that of the rate.
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
      close += now - last < 28 ? 1 : 0;  // 33.6 ns minus the step of this clock
      last = now;
    }
  }
  EXPECT_NEAR(count, 2e-3 * per_second, 4);
  EXPECT_LE(close, 1u);
  EXPECT_EQ(pacer.given_up(), 0u);
}

// 100 us are lost at 100,000 packets/s: ten packets, of which two leave at once. The others come
// back as packets in the middle of an interval, so that all other gaps are exact. While ten are
// owed, one comes after some 400 packets (4096 / 10, and a nanosecond's worth of a packet each).
TEST(LinePacer, TimeLostComesBackAsAnExtraPacketNowAndThen) {
  LinePacer pacer(1);
  constexpr std::int64_t kInterval = 10'000;
  pacer.set_rate(ns(0), 0, Rate::bytes_per_second(1e5 * kBytes), kBytes);
  std::vector<std::int64_t> times;
  const auto note = [&](const LinePacer::Departure&, Time now) { times.push_back(now.ns()); };
  run_exactly(pacer, ms(1), note);
  while (pacer.pop(ms(1.1))) times.push_back(ms(1.1).ns());
  const std::size_t stalled = times.size();
  run_exactly(pacer, ms(1000), note);
  // At most a packet is still owed, and as much is left of an interval.
  EXPECT_NEAR(static_cast<double>(times.size()), 1e5 + 1, 2);
  EXPECT_EQ(pacer.given_up(), 0u);
  std::vector<std::size_t> extra;
  for (std::size_t i = stalled + 1; i < times.size(); ++i) {
    const std::int64_t gap = times[i] - times[i - 1];
    if (gap == kInterval) continue;
    ASSERT_EQ(gap, kInterval / 2);
    ASSERT_EQ(times[i + 1] - times[i], kInterval / 2);
    extra.push_back(i++);
  }
  EXPECT_GE(extra.size(), 7u);
  EXPECT_LE(extra.size(), 9u);
  for (std::size_t i = 1; i < extra.size(); ++i) EXPECT_GE(extra[i] - extra[i - 1], 350u);
}

// A machine takes the processor away every 10 ms or so: for 4 to 40 us, as ours does, and for up to
// 200. Beside a loop that keeps an absolute schedule, and sends all that it owes at once, 99 % of
// the gaps are as good: what comes back disturbs no more gaps than what was lost. 10 ns: the step
// of a clock.
TEST(LinePacer, UnderStallsGapsAreAsGoodAsThoseOfABareLoop) {
  for (const std::uint64_t longest : {40'000, 200'000}) {
    for (const std::int64_t interval_ns : {1'000, 10'000}) {
      Rng rng(longest);
      std::vector<std::pair<std::int64_t, std::int64_t>> stalls;  // from, to
      for (std::int64_t at = 0; at < 2'000'000'000; at += 10'000'000) {
        const auto from = at + static_cast<std::int64_t>(rng.below(1'000'000));
        stalls.emplace_back(from, from + 4'000 + static_cast<std::int64_t>(rng.below(longest)));
      }
      // The first instant from `at` on at which the processor is there.
      const auto awake = [&](std::int64_t at) {
        const auto after = std::upper_bound(stalls.begin(), stalls.end(), std::pair(at, INT64_MAX));
        return after == stalls.begin() ? at : std::max(at, std::prev(after)->second);
      };
      std::vector<std::int64_t> bare, paced;
      for (std::int64_t due = 0; due < 2'000'000'000; due += interval_ns) {
        bare.push_back(awake(due));
      }
      LinePacer pacer(1);
      pacer.set_rate(ns(0), 0,
                     Rate::bytes_per_second(1e9 / static_cast<double>(interval_ns) * kBytes),
                     kBytes);
      while (pacer.next_departure() < ns(2'000'000'000)) {
        const Time now = ns(awake(pacer.next_departure().ns()));
        while (pacer.pop(now)) paced.push_back(now.ns());
      }
      const auto p99 = [interval_ns](const std::vector<std::int64_t>& times) {
        std::vector<std::int64_t> errors;
        for (std::size_t i = 1; i < times.size(); ++i) {
          errors.push_back(std::abs(times[i] - times[i - 1] - interval_ns));
        }
        const auto at = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() * 99 / 100);
        std::nth_element(errors.begin(), at, errors.end());
        return std::max<std::int64_t>(*at, 10);
      };
      EXPECT_LE(2 * p99(paced), 3 * p99(bare)) << longest << ' ' << interval_ns;
    }
  }
}

// An overdue extra packet, and one that waits when its layer stops, count as any other: what left
// and what was given up is what the rate asked for.
TEST(LinePacer, AnExtraPacketThatDoesNotLeaveIsGivenUp) {
  for (const std::int64_t stop_ns : {1'000, 4'000, 6'000, 9'000, 30'000}) {
    SCOPED_TRACE(stop_ns);
    LinePacer pacer(1);
    pacer.set_rate(ns(0), 0, Rate::bytes_per_second(1e5 * kBytes), kBytes);
    double sent = 0;
    std::int64_t now = 0;
    ASSERT_TRUE(pacer.pop(ns(0)));
    ++sent;
    for (now = 900'000; pacer.pop(ns(now));) ++sent;
    std::int64_t last = now;
    while (pacer.next_departure() - ns(last) != Duration::nanoseconds(5'000)) {  // an extra one
      last = now = pacer.next_departure().ns();
      ASSERT_TRUE(pacer.pop(ns(now)));
      ++sent;
      ASSERT_LT(now, 1'000'000'000);
    }
    now += stop_ns;
    pacer.set_rate(ns(now), 0, Rate::zero(), kBytes);
    EXPECT_NEAR(sent + static_cast<double>(pacer.given_up()), static_cast<double>(now) / 1e4, 1.01);
  }
}

// A caller that prepares packets, and hands over at each poll what is due by then, with stalls of
// up to 2 ms. A layer never has more than one prepared packet that is not due yet, and at most two
// packets leave at one poll, including the prepared one. Nothing is lost except what is still owed.
TEST(LinePacer, PacketsReadyAheadDoNotMakeABurst) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const auto layers = static_cast<std::uint32_t>(1 + rng.below(seed % 2 == 0 ? 40 : 2));
    const double per_second = 15e6 / layers;
    const Duration ahead = Duration::nanoseconds(static_cast<std::int64_t>(rng.below(5000)));
    LinePacer pacer(layers);
    for (std::uint32_t k = 0; k < layers; ++k) {
      pacer.set_rate(ns(0), k, Rate::bytes_per_second(per_second * kBytes), kBytes);
    }
    std::vector<LinePacer::Departure> ready;
    double left = 0;
    std::int64_t now = 0;
    while (now < 20'000'000) {
      std::vector<int> leaving(layers, 0), waiting(layers, 0);
      std::int64_t last_due = 0;
      const auto sort = [&](const LinePacer::Departure& d) {
        ++(d.due <= ns(now) ? leaving : waiting)[d.layer];
      };
      for (const auto& d : ready) sort(d);
      std::erase_if(ready, [&](const auto& d) { return d.due <= ns(now); });
      while (const auto d = pacer.pop(ns(now), ns(now) + ahead)) {
        ASSERT_LE(d->due, ns(now) + ahead);
        ASSERT_GE(d->due.ns(), last_due - (layers > 16 ? 64 : 0));
        last_due = d->due.ns();
        sort(*d);
        if (d->due > ns(now)) ready.push_back(*d);
      }
      for (std::uint32_t k = 0; k < layers; ++k) {
        ASSERT_LE(leaving[k], 2);
        ASSERT_LE(waiting[k], 1);
        left += leaving[k];
      }
      const bool stalls = now < 15'000'000 && rng.uniform() < 1e-4;
      now += 1 + static_cast<std::int64_t>(stalls ? rng.below(2'000'000) : rng.below(30));
    }
    const double asked = per_second * layers * static_cast<double>(now) * 1e-9;
    const double most_owed = per_second * layers * LinePacer::kMaxDebt.seconds();
    const double missing = asked - left - static_cast<double>(pacer.given_up());
    EXPECT_LE(missing, most_owed + layers);
    EXPECT_GE(missing, -2.0 * layers);
  }
}

TEST(LinePacer, LayersDueTogetherTakeTurns) {
  LinePacer pacer(3);
  for (LinePacer::Layer layer = 0; layer < 3; ++layer)
    pacer.set_rate(ms(0), layer, interval(4), kBytes);
  std::vector<LinePacer::Layer> order;
  while (const auto departure = pacer.pop(ms(6))) order.push_back(departure->layer);
  EXPECT_EQ(order, (std::vector<LinePacer::Layer>{0, 1, 2, 0, 1, 2}));
}

// An overloaded caller serves one packet in 50 ns while 60 M a second are due: all layers of one
// rate get the same share.
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

// Over random rates, changes, starts and idle times: packets are never early, come in the order of
// their due times, and their number follows from the rates.
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
      // 1 us .. 10 ms, and now and then minutes
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

// Compared with a priority queue of exact due times: thousands of layers from one packet a second
// to 14.88 M a second, random changes, polls when something is due, up to 60 ns later and often in
// between, prepare() at any rhythm, and silences. What is due leaves at that poll, in order.
TEST(LinePacer, DeparturesAreThoseOfAPriorityQueue) {
  struct Instant {  // exact, because rounding a fast layer's phase would matter when it becomes
                    // slow
    std::int64_t ns = 0;
    long double part = 0;
    auto operator<=>(const Instant&) const = default;
    Instant operator+(long double wait) const {
      const long double whole = std::floor(part + wait);
      return {ns + static_cast<std::int64_t>(whole), part + wait - whole};
    }
    long double operator-(std::int64_t other) const {
      return static_cast<long double>(ns - other) + part;
    }
  };
  struct Due {
    Instant at;
    std::uint32_t layer;
    unsigned version;
    bool operator>(const Due& other) const { return at > other.at; }
  };
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const auto layers = static_cast<std::uint32_t>(std::pow(10, rng.uniform() * 3.7));
    const double fastest = std::min(14.88e6, 30e6 / layers);
    const double prepares = rng.uniform() < 0.3 ? 0 : std::pow(rng.uniform(), 3);
    LinePacer pacer(layers);
    std::vector<Instant> due(layers), last(layers);
    std::vector<long double> interval_ns(layers, 0);
    std::vector<unsigned> version(layers, 0);
    std::priority_queue<Due, std::vector<Due>, std::greater<>> queue;
    auto now = static_cast<std::int64_t>(rng.below(1'000'000'000'000));
    const auto change = [&](std::uint32_t k, double per_second) {
      pacer.set_rate(ns(now), k, Rate::bytes_per_second(per_second * kBytes), kBytes);
      // In the pacer's unit, 2^-32 ns, rounded as the pacer does.
      const long double interval =
          per_second > 0
              ? std::floor(std::ldexp(kBytes / (per_second * kBytes) * 1e9, 32)) / 4294967296.0L
              : 0;
      if (interval > 0) {
        const Instant at{now};
        due[k] = interval_ns[k] == 0 ? std::max(at, last[k] + interval)
                                     : at + (due[k] - now) * (interval / interval_ns[k]);
        queue.push({due[k], k, ++version[k]});
      } else {
        ++version[k];
      }
      interval_ns[k] = interval;
    };
    const auto poll = [&] {
      std::int64_t latest = 0;
      while (const auto d = pacer.pop(ns(now))) {
        const std::uint32_t k = d->layer;
        const std::int64_t at = d->due.ns();
        ASSERT_LE(at, now);
        ASSERT_GT(interval_ns[k], 0);
        ASSERT_LE(std::abs(due[k] - at), 1.5) << "layer " << k;  // whole nanoseconds
        ASSERT_GE(at, latest - (layers > 16 ? 64 : 1));
        latest = std::max(latest, at);
        last[k] = {now};
        due[k] = due[k] + interval_ns[k];
        queue.push({due[k], k, ++version[k]});
        if (rng.uniform() < prepares) pacer.prepare();
      }
      while (!queue.empty() && queue.top().version != version[queue.top().layer]) queue.pop();
      if (queue.empty()) return;
      const Due& first = queue.top();
      ASSERT_GE(first.at - now, layers > 16 ? -65.5 : -1.5) << "layer " << first.layer;
      ASSERT_LE(pacer.next_departure().ns(), std::max(first.at.ns + 1, now));
    };
    for (int step = 0; step < 60; ++step) {
      const bool silence = rng.uniform() < 0.2;  // the fast ones stop
      const auto changes = 1 + rng.below(step == 0 ? layers : 20);
      for (std::uint64_t c = 0; c < changes; ++c) {
        const auto k = static_cast<std::uint32_t>(rng.below(layers));
        change(k, rng.uniform() < 0.1 ? 0 : std::pow(fastest, rng.uniform()));
      }
      for (std::uint32_t k = 0; silence && k < layers; ++k) {
        if (interval_ns[k] > 0 && interval_ns[k] < 1e7L) change(k, 0);
      }
      const std::int64_t end =
          now + static_cast<std::int64_t>(std::pow(10, 4 + rng.uniform() * (silence ? 6 : 4)));
      for (int polls = 0; now < end && polls < 5000; ++polls) {
        std::int64_t next = end;
        while (!queue.empty() && queue.top().version != version[queue.top().layer]) queue.pop();
        if (!queue.empty()) {
          next = std::min(next, queue.top().at.ns + 2 + static_cast<std::int64_t>(rng.below(60)));
        }
        next = std::max(next, now);
        if (rng.uniform() < 0.2) {  // too early
          now += static_cast<std::int64_t>(static_cast<double>(next - now) * rng.uniform());
          poll();
          if (HasFatalFailure()) return;
          if (rng.uniform() < prepares) pacer.prepare();
        }
        now = std::max(now, next);
        poll();
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_EQ(pacer.given_up(), 0u);
  }
}

// Overloaded, stalled, and changed in between: the packets that left and those given up add up to
// what the rates asked for, to within a packet per layer.
TEST(LinePacer, WhatIsNotSentIsCountedToAPacket) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    // For one layer the bound is sharp; with many, their errors could cancel.
    const auto layers = static_cast<std::uint32_t>(seed % 3 == 0 ? 1 + rng.below(300) : 1);
    LinePacer pacer(layers);
    const bool changing = seed % 2 == 0;
    std::vector<double> rate(layers);
    const auto draw = [&] { return std::pow(10, 4 + rng.uniform() * 3.17) / layers; };
    double asked = 0;
    std::uint64_t sent = 0;
    std::int64_t now = 1'000'000'000;
    const auto set = [&](std::uint32_t k, double per_second) {
      rate[k] = per_second;
      pacer.set_rate(ns(now), k, Rate::bytes_per_second(per_second * kBytes), kBytes);
    };
    for (std::uint32_t k = 0; k < layers; ++k) set(k, draw());
    double all = 0;
    for (int step = 0; step < 200'000; ++step) {
      if (changing && step % 50 == 0) set(static_cast<std::uint32_t>(rng.below(layers)), draw());
      if (step % 50 == 0) {
        all = 0;
        for (const double r : rate) all += r;
      }
      // At twice the pace that one pop per step can keep up with, with stalls of up to 100 ms.
      const double wait = rng.uniform() < 1e-3 ? rng.uniform() * 1e8 : rng.uniform() * 4e9 / all;
      const auto wait_ns = static_cast<std::int64_t>(wait);
      asked += all * static_cast<double>(wait_ns) * 1e-9;
      now += wait_ns;
      if (pacer.pop(ns(now))) ++sent;
    }
    EXPECT_GT(pacer.given_up(), 1000u);
    for (std::uint32_t k = 0; k < layers; ++k) set(k, 0);  // nothing is owed any more
    EXPECT_NEAR(static_cast<double>(sent + pacer.given_up()), asked, layers * 1.01);
  }
}

// The wheel compared with a set of due times. Entries come and go, some are overdue when they are
// scheduled, and time stands still or passes by nanoseconds to minutes.
TEST(TimingWheel, FindsWhatIsDue) {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const auto size = static_cast<std::uint32_t>(1 + rng.below(seed % 3 == 0 ? 2000 : 20));
    const std::int64_t resolution = size > TimingWheel<WheelNode>::kMaxWalk ? 64 : 1;
    TimingWheel<WheelNode> wheel(size);
    std::set<std::pair<std::int64_t, std::uint32_t>> waiting;  // by wanted
    std::vector<std::int64_t> wanted(size);                    // the due time, or the time of
                                                               // scheduling if that is later
    auto now = static_cast<std::int64_t>(rng.below(1'000'000'000'000'000));
    const double prepares = rng.uniform() < 0.3 ? 0 : rng.uniform();
    const double least = 1 + rng.uniform() * 4, most = least + rng.uniform() * 7;
    const auto schedule = [&](std::uint32_t entry, std::int64_t from) {
      std::int64_t due =
          from + static_cast<std::int64_t>(std::pow(10, least + rng.uniform() * (most - least)));
      if (rng.uniform() < 0.3) {  // soon after the start of a slot of a coarser level
        const std::int64_t slot = rng.uniform() < 0.5 ? 1 << 16 : 1 << 26;
        due = (due / slot + 1) * slot + static_cast<std::int64_t>(rng.below(1000));
      }
      wheel.insert(now, entry, due);
      wanted[entry] = std::max(due, now);
      waiting.insert({wanted[entry], entry});
    };
    for (int step = 0; step < 4000; ++step) {
      const double choice = rng.uniform();
      if (choice < 0.4) {
        const auto entry = static_cast<std::uint32_t>(rng.below(size));
        if (!wheel.scheduled(entry)) {
          schedule(entry, now - (rng.uniform() < 0.1 ? 1000 : 0));
        } else if (rng.uniform() < 0.2) {
          wheel.remove(entry);
          waiting.erase({wanted[entry], entry});
        }
      } else if (choice < 0.5) {
        now += static_cast<std::int64_t>(std::pow(10, rng.uniform() * (choice < 0.41 ? 11 : 6)));
      } else if (choice < 0.8) {
        if (rng.uniform() < 0.5 && !waiting.empty()) {
          const std::int64_t bound = wheel.bound_ns();
          ASSERT_LT(bound - std::max(now, waiting.begin()->first), resolution);
          now = std::max(now, bound);
        }
        for (unsigned taken = 0; taken < 50; ++taken) {
          const std::uint32_t entry = wheel.first(now);
          if (entry == TimingWheel<WheelNode>::kNone) {
            if (!waiting.empty()) {
              ASSERT_LT(now - waiting.begin()->first, resolution);
            }
            break;
          }
          const std::int64_t due = wheel[entry].due_ns;
          ASSERT_LE(due, now);
          wheel.remove(entry);
          ASSERT_EQ(waiting.erase({wanted[entry], entry}), 1u);
          if (rng.uniform() < 0.7) schedule(entry, due);
          if (rng.uniform() < prepares) wheel.prepare(static_cast<unsigned>(rng.below(9)));
        }
      } else if (rng.uniform() < prepares) {
        wheel.prepare(static_cast<unsigned>(rng.below(9)));
      }
    }
  }
}

// Two far entries, in successive slots of the third level, with silence between them.
TEST(TimingWheel, FindsAnEntryAtTheStartOfACoarseSlot) {
  constexpr std::int64_t kSlotNs = 1 << 26;
  TimingWheel<WheelNode> wheel(2);
  wheel.insert(0, 0, kSlotNs + kSlotNs / 2);
  wheel.insert(0, 1, 2 * kSlotNs + 1000);
  EXPECT_EQ(wheel.first(kSlotNs + kSlotNs / 2), 0u);
  wheel.remove(0);
  EXPECT_EQ(wheel.first(2 * kSlotNs + 999), TimingWheel<WheelNode>::kNone);
  EXPECT_EQ(wheel.first(2 * kSlotNs + 2000), 1u);
}

TEST(LinePacer, SlowAndFarLayersAreFound) {
  LinePacer pacer(3);
  pacer.set_rate(ms(0), 0, interval(30'000), kBytes);
  pacer.set_rate(ms(0), 1, interval(3'600'000), kBytes);           // an hour
  pacer.set_rate(ms(0), 2, Rate::bytes_per_second(1e-9), kBytes);  // limited to a day
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
