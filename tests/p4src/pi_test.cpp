// PIE and PI2: how the probability follows the delay, and what becomes of packets at a probability.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <ostream>
#include <random>
#include <vector>

#include "tests/p4src/bench.h"
#include "tests/p4src/queue_model.h"

namespace tiercast::p4test {
namespace {

// The controller in real numbers, with the timer that it has in RFC 8033, 4.2 and 5.5, and RFC
// 9332, A.1. The delay is the wait of the last packet that departed, and 0 once the queue is empty.
// What differs: the first packet of a period still counts for the update at its beginning.
struct PiModel {
  PiParameters gains;
  bool tuned;  // PIE's
  double probability = 0, delay = 0;
  std::int64_t updated = 0;  // in periods

  static double scale(double p) {
    const double bounds[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1};
    const int shifts[] = {11, 9, 7, 5, 3, 1};
    for (int i = 0; i < 6; ++i) {
      if (p < bounds[i]) return std::ldexp(1, -shifts[i]);
    }
    return 1;
  }

  void depart(double now, double wait, bool idle) {
    wait = std::min(wait, 0.262143);
    const auto period = static_cast<std::int64_t>(std::floor(now / PiParameters::kPeriod + 1e-9));
    for (; updated < period; ++updated) {
      if (updated + 1 < period) {
        update(idle ? 0 : delay);
      } else {
        update(wait);
      }
    }
  }

  void update(double now) {
    double step = gains.alpha * (now - gains.target) + gains.beta * (now - delay);
    if (tuned) {
      step *= scale(probability);
      if (probability >= 0.1) step = std::min(step, 0.02);
    }
    probability = std::clamp(probability + step, 0.0, 1.0);
    if (tuned && delay == 0 && now == 0) probability *= 1 - 1 / 64.0;
    delay = now;
  }
};

class Pi : public SwitchTest {
 protected:
  Pi() { bench.host("10.0.1.2", kPort, 0x020000000202); }

  Packet packet(std::uint8_t ecn, std::size_t bytes = 1000) {
    Packet out;
    out.ecn = ecn;
    out.payload.resize(bytes - kIpv4Bytes);
    return out;
  }

  double probability() const {
    return static_cast<double>(bench.cell("pi_probability", kPort)) / kOne;
  }

  // What becomes of packets while the probability is p, in bursts within a period.
  struct Fates {
    double marked, dropped;  // shares
    std::size_t packets;
    std::vector<int> gaps;  // packets from one hit to the next
  };
  Fates at(double p, std::uint8_t ecn, std::uint32_t accumulated = 0) {
    constexpr int kBursts = 20, kBurst = 1000, kSpared = 4;
    bench.limit(kPort, 800e6, 0);  // 10 us a packet
    bench.set_cell("pie_accumulated", kPort, accumulated);
    EgressFates seen{};
    Fates fates{0, 0, kBursts * (kBurst - kSpared), {}};
    int gap = 0;
    for (int burst = 0; burst < kBursts; ++burst) {
      bench.finish();
      bench.advance(17 * kMillisecond);
      const auto now_us = static_cast<std::uint32_t>(bench.now() / kMicrosecond);
      bench.set_cell("pi_probability", kPort, 0);
      bench.set_cell("pi_updated_us", kPort, now_us);
      for (int i = 0; i < kBurst; ++i) bench.receive(1, packet(ecn));
      for (int i = 0; i < kBurst; ++i) {
        if (i == kSpared) {  // the others found enough waiting
          bench.set_cell("pi_delay_us", kPort, 10'000);
          bench.set_cell("pie_burst_us", kPort, 0);
          bench.set_cell("pi_probability", kPort,
                         static_cast<std::uint32_t>(std::lround(p * kOne)));
          seen = bench.egress(kPort);
        }
        if (i < kSpared) bench.advance(10 * kMicrosecond);
      }
      // The rest, one by one where gaps are wanted.
      while (bench.engine_switch().next_event() != engine::Switch::kNever) {
        const EgressFates before = bench.egress(kPort);
        bench.advance_to(bench.engine_switch().next_event());
        const EgressFates after = bench.egress(kPort);
        const auto hits = after.marked + after.dropped - before.marked - before.dropped;
        const auto passed = after.left + after.dropped - before.left - before.dropped - hits;
        for (std::uint64_t n = 0; n < hits; ++n) {
          fates.gaps.push_back(gap + 1);
          gap = 0;
        }
        gap += static_cast<int>(passed);
      }
      const EgressFates after = bench.egress(kPort);
      fates.marked += static_cast<double>(after.marked - seen.marked);
      fates.dropped += static_cast<double>(after.dropped - seen.dropped);
    }
    const auto packets = static_cast<double>(fates.packets);
    return {fates.marked / packets, fates.dropped / packets, fates.packets, fates.gaps};
  }
};

void expect_share(double seen, double p, std::size_t packets) {
  EXPECT_NEAR(seen, p, 4 * std::sqrt(p * (1 - p) / static_cast<double>(packets)) + 1e-9) << p;
}

struct PiLaw {
  const char* name;
  bool tuned;
  double load;               // mean
  std::int64_t ns_per_byte;  // of the link
  friend void PrintTo(const PiLaw& law, std::ostream* out) { *out << "load " << law.load; }
};

class PiFollows : public Pi, public ::testing::WithParamInterface<PiLaw> {};

// All packets are marked or pass, so the queue is a plain one. The load goes up and down by 0.2.
TEST_P(PiFollows, TheDelay) {
  const std::int64_t packet_ns = 1000 * GetParam().ns_per_byte;
  bench.limit(kPort, 8e9 / static_cast<double>(GetParam().ns_per_byte), 0);
  PiParameters gains;
  if (GetParam().tuned) {
    gains.mark_below = 0.99999;
    bench.pie(kPort, gains);
  } else {
    gains.alpha = 0.16;
    gains.beta = 3.2;
    gains.ecn = true;
    bench.pi2(kPort, gains);
  }
  std::mt19937 random(5);
  std::vector<Arrival> arrivals;
  std::int64_t now = 0;
  for (int i = 0; i < 30'000; ++i) {
    const double load = GetParam().load + 0.2 * std::sin(i / 300.0);
    std::exponential_distribution<double> gap(load / static_cast<double>(packet_ns));
    now += static_cast<std::int64_t>(gap(random)) + 1;
    arrivals.push_back({now, 1000});
  }
  const std::vector<Departure> due = departures(arrivals, GetParam().ns_per_byte);
  PiModel model{gains, GetParam().tuned};
  double largest = 0, worst = 0;
  std::size_t departed = 0;
  for (std::size_t i = 0; i <= arrivals.size(); ++i) {
    const std::int64_t until =
        i < arrivals.size() ? arrivals[i].time_ns : std::numeric_limits<std::int64_t>::max();
    while (departed < i && due[departed].time_ns < until) {
      bench.advance_to(due[departed].time_ns);
      // The program's clock has microseconds.
      const std::int64_t arrival_us = arrivals[departed].time_ns / kMicrosecond;
      const std::int64_t wait_us =
          (due[departed].time_ns - arrivals[departed].time_ns + kMicrosecond - 1) / kMicrosecond;
      model.depart(1e-6 * static_cast<double>(arrival_us + wait_us),
                   1e-6 * static_cast<double>(wait_us), due[departed].link_was_idle);
      largest = std::max(largest, model.probability);
      worst = std::max(worst, std::abs(probability() - model.probability));
      ++departed;
    }
    if (i < arrivals.size()) {
      bench.advance_to(until);
      bench.receive(1, packet(kEct0));
    }
  }
  EXPECT_GT(largest, 0.05);
  EXPECT_LT(largest, 1);
  std::cout << "p up to " << largest << ", off by at most " << worst << "\n";
  EXPECT_LT(worst, 0.01 * largest);
}

INSTANTIATE_TEST_SUITE_P(, PiFollows,
                         ::testing::Values(PiLaw{"PIE", true, 0.93, 1000},
                                           PiLaw{"PI2", false, 0.88, 1000},
                                           // 20 ms a packet: one or two periods.
                                           PiLaw{"SlowPI2", false, 0.2, 20'000}),
                         [](const auto& law) { return law.param.name; });

// Steps by hand, where a packet waits for three periods on a busy link: what the timer adds before
// is of the delay of the last packet.
TEST_F(Pi, MissedPeriodsCount) {
  struct Vector {
    double p, previous, wait;  // s
    double next;
    std::int64_t periods = 3;
  };
  PiParameters gains;
  gains.target = 0.060;
  bench.pie(kPort, gains);
  const double a = gains.alpha, b = gains.beta;
  const Vector vectors[] = {
      {0.2, 0.070, 0.080, 0.2 + a * (2 * 0.010 + 0.020) + b * 0.010},
      {0.2, 0.080, 0.080, 0.2 + a * 3 * 0.020},
      {0.2, 0.050, 0.070, 0.2 + a * (-2 * 0.010 + 0.010) + b * 0.020},
      {0.2, 0.090, 0.080, 0.2 + a * (2 * 0.030 + 0.020) - b * 0.010},
      {0.2, 0.000, 0.250, 0.2 + 3 * 0.02},        // at most 0.02 a period
      {0.2, 0.080, 0.080, 0.2 + a * 0.020, 300},  // the port had another policy meanwhile
  };
  for (const Vector& v : vectors) {
    bench.finish();
    bench.advance(1000 * kMillisecond);
    // The first packet is on the link when the second comes, which waits for its end.
    bench.limit(kPort, 8e3 / v.wait, 0);
    bench.receive(1, packet(kEct0));
    bench.receive(1, packet(kEct0));
    bench.advance(static_cast<std::int64_t>(v.wait * 1e9) - kMillisecond);
    const auto departs_us = bench.now() / kMicrosecond + 1000;
    bench.set_cell("pi_probability", kPort, static_cast<std::uint32_t>(std::lround(v.p * kOne)));
    bench.set_cell("pi_delay_us", kPort, static_cast<std::uint32_t>(std::lround(v.previous * 1e6)));
    bench.set_cell("pi_updated_us", kPort,
                   static_cast<std::uint32_t>(departs_us - v.periods * (1 << 14) - 100));
    bench.advance(2 * kMillisecond);
    EXPECT_NEAR(probability(), v.next, 2e-5) << v.previous << " " << v.wait;
  }
}

TEST_F(Pi, PieDropsWithItsProbability) {
  bench.pie(kPort, {});
  for (const double p : {0.003, 0.05, 0.3}) {
    const Fates fates = at(p, kEct0);
    expect_share(fates.dropped, p, fates.packets);
    EXPECT_EQ(fates.marked, 0);
  }
}

TEST_F(Pi, PieMarksWhileItsProbabilityIsLow) {
  bench.pie(kPort, {.mark_below = 0.1});
  const Fates low = at(0.05, kEct0), high = at(0.15, kEct0), other = at(0.05, kNotEct);
  expect_share(low.marked, 0.05, low.packets);
  EXPECT_EQ(low.dropped, 0);
  expect_share(high.dropped, 0.15, high.packets);
  EXPECT_EQ(high.marked, 0);
  expect_share(other.dropped, 0.05, other.packets);
  const Fates before = at(0.05, kCe);
  EXPECT_EQ(before.marked + before.dropped, 0) << "marked before";
}

TEST_F(Pi, PieSpreadsItsDrops) {
  bench.pie(kPort, {.spread = true});
  const Fates fates = at(0.05, kEct0);
  ASSERT_GT(fates.gaps.size(), 100u);
  // Of gaps, whole ones: the sum of probabilities is 0.85 after 17 packets.
  EXPECT_GE(*std::min_element(fates.gaps.begin() + 1, fates.gaps.end()), 17);
  EXPECT_LE(*std::max_element(fates.gaps.begin() + 1, fates.gaps.end()), 170);
}

TEST_F(Pi, PieSparesBurstsAndShortQueues) {
  bench.limit(kPort, 8e6, 0);
  bench.pie(kPort, {});
  bench.advance(100 * kMillisecond);
  for (int i = 0; i < 140; ++i) bench.receive(1, packet(kEct0));  // 140 ms, less than the burst
  bench.finish();
  EXPECT_EQ(bench.egress(kPort).dropped, 0u);
  for (int i = 0; i < 400; ++i) bench.receive(1, packet(kEct0));
  bench.finish();
  EXPECT_GT(bench.egress(kPort).dropped, 0u);
}

TEST_F(Pi, Pi2SquaresAndDoubles) {
  bench.pi2(kPort, {.ecn = true});
  for (const double p : {0.1, 0.3, 0.45}) {
    const Fates classic = at(p, kEct0), scalable = at(p, kEct1), none = at(p, kNotEct);
    expect_share(classic.marked, p * p, classic.packets);
    expect_share(scalable.marked, 2 * p, scalable.packets);
    expect_share(none.dropped, p * p, none.packets);
    EXPECT_EQ(classic.dropped + scalable.dropped + none.marked, 0);
    const Fates before = at(p, kCe);
    EXPECT_EQ(before.marked + before.dropped, 0) << "marked before";
  }
  bench.pi2(kPort, {});
  const Fates dropped = at(0.3, kEct1);
  expect_share(dropped.dropped, 0.09, dropped.packets);
}

}  // namespace
}  // namespace tiercast::p4test
