// RED in the traffic manager (on arrival) and RED in the P4 program (at departure), compared with
// ns-3's RedQueueDisc for the same arrivals.
// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>
// Headers one by one: the modules' bring some that are not C++20.
#include <ns3/boolean.h>
#include <ns3/data-rate.h>
#include <ns3/double.h>
#include <ns3/red-queue-disc.h>
#include <ns3/string.h>
#include <ns3/uinteger.h>

#include <cmath>
#include <cstdint>
#include <deque>
#include <ostream>
#include <random>
#include <vector>

#include "tests/ns3/beside_queue_disc.h"
#include "tests/p4src/red_model.h"

namespace tiercast::p4test {
namespace {

// RED in real numbers, with the differences between the two.
struct RedModel {
  // The program: a packet that will be dropped waits until its turn, and counts as waiting until
  // then.
  bool at_departure;

  Fate carry(const RedParameters& red, const std::vector<std::int64_t>& times) const {
    struct Waiting {
      double since;
      bool dropped;
    };
    std::mt19937_64 random(11);
    std::uniform_real_distribution<double> uniform(red.wait, 1.0 + red.wait);
    std::deque<Waiting> queue;
    double link_free = 0, average = 0, until_mark = uniform(random), left = 0;
    Fate fate;
    const auto serve = [&](double now) {
      while (!queue.empty()) {
        const double start = std::max(link_free, queue.front().since);
        if (start > now) break;
        const Waiting head = queue.front();
        queue.pop_front();
        if (head.dropped) continue;
        fate.wait += start - head.since;
        ++left;
        link_free = start + 1;
      }
    };
    for (const std::int64_t time : times) {
      const double now = static_cast<double>(time) / kService;
      serve(now);
      const auto waiting = static_cast<double>(queue.size());
      if (queue.empty() && link_free <= now) {
        const double idle = (now - link_free) * kIpBytes / red.mean_packet;
        average *= std::pow(1 - kRedWeight, 1 + std::floor(idle));
      } else {
        average += kRedWeight * (waiting - average);
      }
      const double p_b = waiting < 2 ? 0 : red_p_b(red, average);  // ns-2's `qlen > 1`
      const bool forced = p_b == 1;
      bool hit = forced;
      if (p_b > 0 && !forced && until_mark > p_b) {
        until_mark -= p_b;
      } else {
        hit = p_b > 0;
        until_mark = uniform(random);
      }
      const bool mark = hit && !forced && red.ecn;
      fate.marked += mark;
      fate.dropped += hit && !mark;
      if (!hit || mark || at_departure) queue.push_back({now, hit && !mark});
    }
    serve(1e18);
    fate.wait /= left;
    fate.marked /= kPackets;
    fate.dropped /= kPackets;
    return fate;
  }
};

Fate through_program(const RedParameters& red, const std::vector<std::int64_t>& times,
                     std::uint64_t seed = 1) {
  Bench bench(seed);
  bench.limit(kPort, 8e6, 0);
  bench.host("10.0.1.2", kPort, 0x020000000202);
  bench.red(kPort, red);
  return carry(bench, times);
}

Fate through_queue(const RedParameters& red, const std::vector<std::int64_t>& times,
                   std::uint64_t seed) {
  Bench bench(seed);
  bench.host("10.0.1.2", kPort, 0x020000000202);
  engine::PortConfig config = bench.engine_switch().port_config(kPort).value();
  config.rate_bps = red.link_bps;
  config.red = {.min_th = red.min_th,
                .max_th = red.max_th,
                .max_p = red.max_p,
                .weight = kRedWeight,
                .mean_packet_bytes = red.mean_packet,
                .gentle = red.gentle,
                .wait = red.wait,
                .ecn = red.ecn,
                .mark_above_max = red.mark_above_max};
  EXPECT_TRUE(bench.engine_switch().set_port(kPort, config, 0).ok());
  return carry(bench, times);
}

// ns2_count: a forced drop restarts the spread of drops, as in ns-2. ns-3 does not do so by
// default: its Ns1Compat is the opposite of ns-2's ns1_compat_.
Fate through_ns3(const RedParameters& red, const std::vector<std::int64_t>& times,
                 std::int64_t stream = 1, bool ns2_count = false) {
  const auto disc = ns3::CreateObject<ns3::RedQueueDisc>();
  disc->SetAttribute("MaxSize", ns3::StringValue("100000p"));
  disc->SetAttribute("MinTh", ns3::DoubleValue(red.min_th));
  disc->SetAttribute("MaxTh", ns3::DoubleValue(red.max_th));
  disc->SetAttribute("LInterm", ns3::DoubleValue(1 / red.max_p));
  disc->SetAttribute("QW", ns3::DoubleValue(1 / 512.0));
  disc->SetAttribute("Gentle", ns3::BooleanValue(red.gentle));
  disc->SetAttribute("Wait", ns3::BooleanValue(red.wait));
  disc->SetAttribute("UseEcn", ns3::BooleanValue(red.ecn));
  disc->SetAttribute("Ns1Compat", ns3::BooleanValue(ns2_count));
  disc->SetAttribute("UseHardDrop", ns3::BooleanValue(!red.mark_above_max));
  disc->SetAttribute("MeanPktSize",
                     ns3::UintegerValue(static_cast<std::uint32_t>(red.mean_packet)));
  disc->SetAttribute("LinkBandwidth",
                     ns3::DataRateValue(ns3::DataRate(static_cast<std::uint64_t>(red.link_bps))));
  disc->AssignStreams(stream);
  disc->Initialize();
  return Ns3Link(disc).carry(times);
}

struct RedCase {
  const char* name;
  double load;
  bool poisson;
  RedParameters red;
};

std::ostream& operator<<(std::ostream& out, const RedCase& c) {
  return out << c.name << " at load " << c.load;
}

// Leaves room for chance, four deviations of a count, and for what the model leaves out: `relative`
// (fixed point; p_b for each packet instead of p_a at once; when counting begins).
void expect_like(double seen, double model, double relative, const char* what) {
  EXPECT_NEAR(seen, model, relative * model + 4 * std::sqrt(model / kPackets)) << what;
}

class RedBesideNs3 : public ::testing::TestWithParam<RedCase> {};

TEST_P(RedBesideNs3, SameArrivals) {
  const RedCase& c = GetParam();
  const std::vector<std::int64_t> times = arrivals(c.load, c.poisson);
  const Fate ours = through_program(c.red, times);
  const Fate theirs = through_ns3(c.red, times);
  std::cout << c << ": " << ours << "; ns-3: " << theirs << "\n";
  if (!c.poisson) {
    // The queue neither empties nor passes the thresholds, so both drop what the link cannot carry,
    // at the same average. The program's average includes packets that will be dropped, which then
    // take no time.
    EXPECT_GT(theirs.dropped, 0.99 * (1 - 1 / c.load));
    EXPECT_NEAR(ours.dropped, theirs.dropped, 0.001);
    EXPECT_NEAR(ours.wait, (1 - ours.dropped) * theirs.wait, 0.03 * theirs.wait);
  } else if (c.load < 1) {
    EXPECT_NEAR(ours.dropped, theirs.dropped, 0.0015);
    EXPECT_NEAR(ours.marked, theirs.marked, 0.005);
    EXPECT_NEAR(ours.wait, theirs.wait, 0.01 * theirs.wait);
  } else {
    EXPECT_NEAR(ours.dropped, theirs.dropped, 0.15 * theirs.dropped);
  }
  // That is the only cause of the difference between them.
  const Fate as_ours = RedModel{true}.carry(c.red, times);
  const Fate as_theirs = RedModel{false}.carry(c.red, times);
  expect_like(ours.dropped, as_ours.dropped, 0.02, "dropped by the program");
  expect_like(ours.marked, as_ours.marked, 0.02, "marked by the program");
  EXPECT_NEAR(ours.wait, as_ours.wait, 0.02 * as_ours.wait);
  expect_like(theirs.dropped, as_theirs.dropped, 0.02, "dropped by ns-3");
  expect_like(theirs.marked, as_theirs.marked, 0.02, "marked by ns-3");
  EXPECT_NEAR(theirs.wait, as_theirs.wait, 0.07 * as_theirs.wait);
}

RedParameters with(bool ecn, bool wait, bool gentle) {
  RedParameters red;
  red.ecn = ecn;
  red.wait = wait;
  red.gentle = gentle;
  return red;
}

INSTANTIATE_TEST_SUITE_P(
    , RedBesideNs3,
    ::testing::Values(RedCase{"ns-2's at the papers' time", 0.9, true, with(false, true, false)},
                      RedCase{"ns-2's at the papers' time", 0.97, true, with(false, true, false)},
                      RedCase{"ns-2's at the papers' time", 1.05, true, with(false, true, false)},
                      RedCase{"ns-2's at the papers' time", 1.2, true, with(false, true, false)},
                      RedCase{"1993", 0.97, true, with(false, false, false)},
                      RedCase{"1993", 1.05, true, with(false, false, false)},
                      RedCase{"1993", 1.2, true, with(false, false, false)},
                      RedCase{"gentle", 1.05, true, with(false, true, true)},
                      RedCase{"gentle", 1.3, true, with(false, true, true)},
                      RedCase{"steady", 1.02, false, with(false, true, false)},
                      RedCase{"steady", 1.05, false, with(false, true, false)},
                      RedCase{"steady 1993", 1.05, false, with(false, false, false)},
                      RedCase{"steady 1993", 1.08, false, with(false, false, false)},
                      RedCase{"steady gentle", 1.2, false, with(false, true, true)},
                      RedCase{"ECN", 0.9, true, with(true, true, false)},
                      RedCase{"ECN", 0.95, true, with(true, true, false)},
                      RedCase{"ECN", 0.95, true, with(true, false, false)}));

// RED where ns-2 has it. Both draw for themselves: over kRuns runs of 60 000 packets chance leaves
// about 0.0002 of drops and marks, and 0.2 % of the wait. The bounds are five times that; RED at
// departure does not keep them above the link's rate.
class RedOnArrivalBesideNs3 : public ::testing::TestWithParam<RedCase> {};

TEST_P(RedOnArrivalBesideNs3, SameArrivals) {
  constexpr std::uint64_t kRuns = 4;
  const RedCase& c = GetParam();
  Fate queue, program, theirs, theirs_by_default;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    const std::vector<std::int64_t> times = arrivals(c.load, c.poisson, seed);
    queue += through_queue(c.red, times, seed);
    program += through_program(c.red, times, seed);
    const auto stream = static_cast<std::int64_t>(seed);
    theirs += through_ns3(c.red, times, stream, true);
    theirs_by_default += through_ns3(c.red, times, stream);
  }
  queue = queue / kRuns;
  program = program / kRuns;
  theirs = theirs / kRuns;
  theirs_by_default = theirs_by_default / kRuns;
  std::cout << c << "\n  on arrival:   " << queue << "\n  ns-3:         " << theirs

            << "\n  its default:  " << theirs_by_default << "\n  at departure: " << program << "\n";
  EXPECT_NEAR(queue.dropped, theirs.dropped, 0.001);
  EXPECT_NEAR(queue.marked, theirs.marked, 0.001);
  EXPECT_NEAR(queue.wait, theirs.wait, 0.01 * theirs.wait);
  EXPECT_NEAR(queue.carried, theirs.carried, 0.001);
  EXPECT_NEAR(queue.dropped, theirs_by_default.dropped, 0.005);
  EXPECT_NEAR(queue.marked, theirs_by_default.marked, 0.005);
  EXPECT_NEAR(queue.wait, theirs_by_default.wait, 0.03 * theirs_by_default.wait);
  if (c.load > 1) {
    EXPECT_GT(program.dropped, theirs.dropped + 0.001);
    EXPECT_LT(program.carried, theirs.carried);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , RedOnArrivalBesideNs3,
    ::testing::Values(RedCase{"ns-2's at the papers' time", 0.9, true, with(false, true, false)},
                      RedCase{"ns-2's at the papers' time", 1.05, true, with(false, true, false)},
                      RedCase{"ns-2's at the papers' time", 1.2, true, with(false, true, false)},
                      RedCase{"1993", 0.9, true, with(false, false, false)},
                      RedCase{"1993", 1.05, true, with(false, false, false)},
                      RedCase{"1993", 1.2, true, with(false, false, false)},
                      RedCase{"gentle", 1.05, true, with(false, true, true)},
                      RedCase{"gentle", 1.2, true, with(false, true, true)},
                      RedCase{"ECN", 0.9, true, with(true, true, false)},
                      RedCase{"ECN", 1.05, true, with(true, true, false)},
                      RedCase{"ECN", 1.2, true, with(true, true, false)}));

}  // namespace
}  // namespace tiercast::p4test
