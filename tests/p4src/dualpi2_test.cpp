// DualPI2 against the pseudocode of RFC 9332, appendix A, in real numbers: how p' follows the two
// queues' delay, what becomes of the packets of each, and what happens at overload.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>
#include <vector>

#include "tests/p4src/bench.h"

namespace tiercast::p4test {
namespace {

constexpr std::int64_t kPeriodUs = 1 << 14;

bool is_l4s(std::uint8_t ecn) { return (ecn & 1) == 1; }

class DualPi2 : public SwitchTest {
 protected:
  DualPi2() {
    bench.host("10.0.1.2", kPort, 0x020000000202);
    bench.queue_classes();
  }

  Packet packet(std::uint8_t ecn, std::uint16_t identification = 0, std::size_t bytes = 1000) {
    Packet out;
    out.ecn = ecn;
    out.identification = identification;
    out.payload.resize(bytes - kIpv4Bytes);
    return out;
  }

  double probability() const {
    return static_cast<double>(bench.cell("pi_probability", kPort)) / kOne;
  }
  void set(double p, double previous_delay = 0, std::int64_t updated_us = 0) {
    bench.set_cell("pi_probability", kPort,
                   static_cast<std::uint32_t>(std::min(std::lround(p * kOne), 0xffffffffL)));
    bench.set_cell("pi_delay_us", kPort,
                   static_cast<std::uint32_t>(std::lround(previous_delay * 1e6)));
    bench.set_cell("pi_updated_us", kPort, static_cast<std::uint32_t>(updated_us));
  }

  // The p' that follows from one update, by a packet that waited for delay_us while the other queue
  // sent nothing.
  double updated(double p, double previous_delay, std::int64_t delay_us, std::uint8_t ecn) {
    bench.finish();
    bench.advance(100 * kMillisecond);
    bench.two_queues(kPort, 8e6, 0);        // a byte each us
    set(0, 0, bench.now() / kMicrosecond);  // the first one is not dropped
    bench.receive(1, packet(kNotEct, 0, static_cast<std::size_t>(delay_us)));
    bench.receive(1, packet(ecn));
    for (const char* wait : {"dualpi2_classic_us", "dualpi2_l4s_us"})
      bench.set_cell(wait, kPort, 0);
    set(p, previous_delay, bench.now() / kMicrosecond + delay_us - kPeriodUs);
    bench.advance(delay_us * kMicrosecond);
    return probability();
  }

  // What becomes of packets of one kind while p' is p, at a link so fast that the ramp sleeps.
  struct Fates {
    double marked, dropped;  // shares
    double packets;
  };
  Fates at(double p, std::uint8_t ecn) {
    constexpr int kBursts = 20, kBurst = 1000;
    bench.two_queues(kPort, 800e9, 0.1);  // 10 ns a packet
    EgressFates sum;
    for (int burst = 0; burst < kBursts; ++burst) {
      bench.finish();
      bench.advance(17 * kMillisecond);
      set(p, 0, bench.now() / kMicrosecond);
      const EgressFates before = bench.egress(kPort);
      for (int i = 0; i < kBurst; ++i) bench.receive(1, packet(ecn));
      bench.finish();
      const EgressFates after = bench.egress(kPort);
      sum.marked += after.marked - before.marked;
      sum.dropped += after.dropped - before.dropped;
    }
    constexpr double kPackets = kBursts * kBurst;
    return {static_cast<double>(sum.marked) / kPackets, static_cast<double>(sum.dropped) / kPackets,
            kPackets};
  }
};

void expect_share(double seen, double p, double packets) {
  EXPECT_NEAR(seen, p, 4 * std::sqrt(p * (1 - p) / packets) + 1e-9) << p;
}

// dualpi2_update(), line 3: p' = p' + alpha (curq - target) + beta (curq - prevq), by hand with the
// RFC's alpha 0.16, beta 3.2, target 15 ms.
TEST_F(DualPi2, UpdatesAsTheRfc) {
  struct Vector {
    double p, previous_ms;
    std::int64_t delay_us;
    double next;
  };
  const Vector vectors[] = {
      {0.00, 0, 20'000, 0.0648},     // 0.16 * 0.005 + 3.2 * 0.020
      {0.0648, 20, 25'000, 0.0824},  // + 0.16 * 0.010 + 3.2 * 0.005
      {0.0824, 25, 10'000, 0.0336},  // - 0.16 * 0.005 - 3.2 * 0.015
      {0.0336, 10, 5'000, 0.0160},   // - 0.16 * 0.010 - 3.2 * 0.005
      {0.0160, 5, 2'000, 0.00432},   // - 0.16 * 0.013 - 3.2 * 0.003
      {0.0010, 5, 2'000, 0.0},       // never below 0
      {0.5000, 15, 15'000, 0.5},     // at the target nothing changes
      {0.9500, 10, 40'000, 1.0},     // never above 1
  };
  bench.dualpi2(kPort, {});
  for (const Vector& v : vectors) {
    for (const std::uint8_t ecn : {kNotEct, kEct1}) {
      // alpha and beta are whole units for each us: alpha 687 of 687.2, so a product is off by 3e-4
      // of itself at most.
      EXPECT_NEAR(updated(v.p, v.previous_ms / 1e3, v.delay_us, ecn), v.next, 2e-5)
          << v.p << " " << v.previous_ms << " " << v.delay_us;
    }
  }
}

// dualpi2_dequeue(): p_C = p'^2 drops, or marks ECT(0); p_CL = k p' marks L4S.
TEST_F(DualPi2, ClassicIsSquaredAndL4sIsCoupled) {
  for (const double k : {2.0, 1.25}) {
    bench.dualpi2(kPort, {.coupling = k});
    for (const double p : {0.02, 0.1, 0.3, 0.45}) {
      const Fates none = at(p, kNotEct), classic = at(p, kEct0), l4s = at(p, kEct1);
      expect_share(none.dropped, p * p, none.packets);
      expect_share(classic.marked, p * p, classic.packets);
      expect_share(l4s.marked, k * p, l4s.packets);
      EXPECT_EQ(none.marked + classic.dropped + l4s.dropped, 0);
    }
  }
}

// 4.2.3 and A.2: from k p' = 1 on ECN is no protection from drops.
TEST_F(DualPi2, OverloadDropsWhatItMarked) {
  bench.dualpi2(kPort, {});
  for (const double p : {0.5, 0.7}) {
    const Fates classic = at(p, kEct0), l4s = at(p, kEct1), ce = at(p, kCe);
    expect_share(classic.dropped, p * p, classic.packets);
    EXPECT_EQ(classic.marked, 0);
    expect_share(l4s.dropped, p * p, l4s.packets);
    EXPECT_NEAR(l4s.marked, 1 - l4s.dropped, 1e-9);  // all that is left
    expect_share(ce.dropped, p * p, ce.packets);
    EXPECT_EQ(ce.marked, 0) << "marked before";
  }
}

// laqm(): 0 up to minTh, 1 from maxTh on, linear between, and 0 where no more than Th_len packets
// are left in the L queue.
TEST_F(DualPi2, TheRampIsOfTheWait) {
  constexpr int kTimes = 400;
  bench.dualpi2(kPort, {.ramp_us = 2000, .range_us = 4000, .ramp_depth = 1});
  std::vector<int> marked(8);
  for (int time = 0; time < kTimes; ++time) {
    bench.finish();
    bench.advance(17 * kMillisecond);
    bench.two_queues(kPort, 8e6, 0);
    set(0, 0, bench.now() / kMicrosecond);
    bench.clear();
    // They wait for 0, 1, ... 7 ms.
    for (std::uint16_t i = 0; i < 8; ++i) bench.receive(1, packet(kEct1, i));
    bench.finish();
    for (const Sent& sent : bench.sent())
      marked[identification(sent.frame)] += ecn(sent.frame) == kCe;
  }
  EXPECT_EQ(marked[0] + marked[1] + marked[2], 0);
  for (const int ms : {3, 4, 5})
    expect_share(marked[static_cast<std::size_t>(ms)] / double{kTimes}, (ms - 2) / 4.0, kTimes);
  // Packets 6 and 7 waited too long, but leave one and none behind.
  EXPECT_EQ(marked[6] + marked[7], 0);
  bench.dualpi2(kPort, {.ramp_us = 2000, .range_us = 0, .ramp_depth = 0});  // a step
  bench.advance(17 * kMillisecond);
  set(0, 0, bench.now() / kMicrosecond);
  bench.clear();
  for (std::uint16_t i = 0; i < 8; ++i) bench.receive(1, packet(kEct1, i));
  bench.finish();
  for (const Sent& sent : bench.sent()) {
    const std::uint16_t ms = identification(sent.frame);
    EXPECT_EQ(ecn(sent.frame) == kCe, ms >= 2 && ms < 7) << ms;
  }
}

struct Offered {
  std::int64_t time_ns, wait_ns = -1;
  std::uint8_t ecn;
};

// Classic and L4S packets, all marked and none dropped, at a load that rises and falls. The test
// knows when each packet came and left, so it knows how long the first packet of each queue had
// waited at any time: cq.time() and lq.time() of dualpi2_update() in A.2, at the end of each
// period. The program knows the waits of the packets that departed.
TEST_F(DualPi2, FollowsTheLongerOfTheQueuesDelays) {
  constexpr std::int64_t kTransmission = kMillisecond;
  bench.dualpi2(kPort, {});
  bench.two_queues(kPort, 8e6, 0.1);
  std::mt19937 random(5);
  std::vector<Offered> offered;
  std::vector<double> seen;  // p' at the end of each period
  std::int64_t now = 0;
  for (int i = 0; i < 40'000; ++i) {
    const double load = 0.85 + 0.15 * std::sin(i / 300.0);
    std::exponential_distribution<double> gap(load / 1e6);
    now += static_cast<std::int64_t>(gap(random)) + 1;
    offered.push_back({.time_ns = now, .ecn = draw(random, 4) == 0 ? kEct1 : kEct0});
  }
  for (std::size_t i = 0; i < offered.size(); ++i) {
    while (static_cast<std::int64_t>(seen.size() + 1) * kPeriodUs * kMicrosecond <=
           offered[i].time_ns) {
      bench.advance_to(static_cast<std::int64_t>(seen.size() + 1) * kPeriodUs * kMicrosecond - 1);
      seen.push_back(probability());
    }
    bench.advance_to(offered[i].time_ns);
    bench.receive(1, packet(offered[i].ecn, static_cast<std::uint16_t>(i)));
  }
  bench.finish();
  ASSERT_EQ(bench.sent().size(), offered.size());
  std::size_t turn = 0;  // identifications are modulo 2^16
  for (const Sent& sent : bench.sent()) {
    const std::size_t index = identification(sent.frame) + (turn & ~std::size_t{0xffff});
    offered[index].wait_ns = sent.due_ns - kTransmission - offered[index].time_ns;
    ++turn;
  }
  // The RFC's, with an update at the end of each period.
  double p = 0, previous = 0, worst = 0, largest = 0, squares = 0;
  std::size_t first = 0;
  for (std::size_t period = 1; period < seen.size(); ++period) {
    const std::int64_t at = static_cast<std::int64_t>(period) * kPeriodUs * kMicrosecond;
    std::int64_t classic = 0, l4s = 0;
    for (; first < offered.size() && offered[first].time_ns + offered[first].wait_ns < at;
         ++first) {
    }
    for (std::size_t i = first; i < offered.size() && offered[i].time_ns < at; ++i) {
      if (offered[i].time_ns + offered[i].wait_ns < at) continue;  // has left
      std::int64_t& age = is_l4s(offered[i].ecn) ? l4s : classic;
      age = std::max(age, at - offered[i].time_ns);
    }
    const double delay = 1e-9 * static_cast<double>(std::max(classic, l4s));
    p = std::clamp(p + 0.16 * (delay - 0.015) + 3.2 * (delay - previous), 0.0, 1.0);
    previous = delay;
    largest = std::max(largest, p);
    worst = std::max(worst, std::abs(seen[period] - p));
    squares += (seen[period] - p) * (seen[period] - p);
  }
  const double typical = std::sqrt(squares / static_cast<double>(seen.size()));
  std::cout << "p' up to " << largest << ", off by " << typical << " (root mean square), at most "
            << worst << "\n";
  EXPECT_GT(largest, 0.1);
  EXPECT_LT(largest, 0.5);  // no overload, so nothing was dropped
  // An error of a delay counts with beta, 3.2 a second, and once, since the next update subtracts
  // it. The program's are a service time of 1 ms as a rule; what it knows of a queue is a period
  // old at most, in which that queue's delay changes by as much at most.
  EXPECT_LT(typical, 3.2 * 0.001);
  EXPECT_LT(worst, 3.2 * 1e-6 * kPeriodUs);
}

}  // namespace
}  // namespace tiercast::p4test
