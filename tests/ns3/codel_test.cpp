// CoDel in the P4 program, compared with ns-3's CoDelQueueDisc for the same arrivals.
// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>
#include <ns3/boolean.h>
#include <ns3/codel-queue-disc.h>
#include <ns3/nstime.h>
#include <ns3/string.h>

#include <cmath>
#include <deque>
#include <ostream>

#include "tests/ns3/beside_queue_disc.h"

namespace tiercast::p4test {
namespace {

struct CodelCase {
  double load;
  bool poisson;
  CodelParameters codel;
};

std::ostream& operator<<(std::ostream& out, const CodelCase& c) {
  return out << (c.poisson ? "Poisson" : "steady") << (c.codel.ecn ? ", ECN" : "") << " at load "
             << c.load << ", target " << c.codel.target_us << " us, interval "
             << c.codel.interval_us << " us";
}

Fate through_program(const CodelParameters& codel, const std::vector<std::int64_t>& times) {
  Bench bench;
  bench.limit(kPort, 8e6, 0);
  bench.host("10.0.1.2", kPort, 0x020000000202);
  bench.codel(kPort, codel);
  return carry(bench, times);
}

Fate through_ns3(const CodelParameters& codel, const std::vector<std::int64_t>& times) {
  const auto disc = ns3::CreateObject<ns3::CoDelQueueDisc>();
  disc->SetAttribute("MaxSize", ns3::StringValue("100000p"));
  disc->SetAttribute("Target", ns3::TimeValue(ns3::MicroSeconds(codel.target_us)));
  disc->SetAttribute("Interval", ns3::TimeValue(ns3::MicroSeconds(codel.interval_us)));
  disc->SetAttribute("UseEcn", ns3::BooleanValue(codel.ecn));
  disc->Initialize();
  return Ns3Link(disc).carry(times);
}

// RFC 8289 in real numbers, with ns-3's differences.
struct CodelModel {
  // ns-3 counts the gap to the next mark from now, not from when this one was due; and it starts
  // anew when dropping ended before a drop that was due, since the time until then is an unsigned
  // number.
  bool of_ns3;

  Fate carry(const CodelParameters& codel, const std::vector<std::int64_t>& times) const {
    const double service = kService / 1e3, target = codel.target_us, interval = codel.interval_us;
    double free = 0, first_above = -1, next = 0, gap_share = 1, count = 0, last_count = 0;
    bool dropping = false, dropped = false;
    std::size_t left = 0;
    Fate fate;
    std::deque<double> queue;
    const auto step = [&] { gap_share *= (3 - count * gap_share * gap_share) / 2; };
    const auto serve = [&](double until) {
      while (!queue.empty()) {
        const double now = std::max(free, queue.front());
        if (now > until) break;
        const double wait = now - queue.front();
        queue.pop_front();
        bool late = false;
        if (wait < target || queue.size() <= 1) {
          first_above = -1;
        } else if (first_above < 0) {
          first_above = now + interval;
        } else {
          late = now >= first_above;
        }
        bool due = false;
        if (!late) {
          dropping = dropped = false;
        } else if (!dropping) {
          due = true;
          const double drops = count - last_count;
          const bool soon = now - next < 16 * interval && !(of_ns3 && now < next);
          if (drops > 1 && soon) {
            count = drops;
            step();
          } else {
            count = gap_share = 1;
          }
          last_count = count;
          next = now + interval * gap_share;
          dropping = true;
        } else {
          if (dropped) next += interval * gap_share;
          dropped = false;
          if (now >= next) {
            due = true;
            ++count;
            step();
            if (codel.ecn) next = (of_ns3 ? now : next) + interval * gap_share;
            dropped = !codel.ecn;
          }
        }
        fate.marked += due && codel.ecn;
        fate.dropped += due && !codel.ecn;
        if (due && !codel.ecn) continue;
        fate.wait += wait / service;
        ++left;
        free = now + service;
      }
    };
    for (const std::int64_t time : times) {
      const double now = static_cast<double>(time) / 1e3;
      serve(std::nextafter(now, 0));
      queue.push_back(now);
    }
    serve(1e18);
    fate.wait /= static_cast<double>(left);
    fate.marked /= kPackets;
    fate.dropped /= kPackets;
    fate.carried = static_cast<double>(left) / capacity(times);
    return fate;
  }
};

// Nothing in CoDel is random, but from the first drop on that comes a packet sooner or later each
// queue has a history of its own, so that waits differ by some percent.
void expect_like(const Fate& seen, const Fate& model, const char* which) {
  EXPECT_NEAR(seen.dropped, model.dropped, 0.02 * model.dropped + 0.0002) << which;
  EXPECT_NEAR(seen.marked, model.marked, 0.02 * model.marked + 0.0002) << which;
  EXPECT_NEAR(seen.wait, model.wait, 0.03 * model.wait) << which;
  EXPECT_NEAR(seen.carried, model.carried, 0.002) << which;
}

class CodelBesideNs3 : public ::testing::TestWithParam<CodelCase> {};

TEST_P(CodelBesideNs3, SameArrivals) {
  constexpr std::uint64_t kRuns = 4;
  const CodelCase& c = GetParam();
  Fate ours, theirs, as_ours, as_theirs;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    const std::vector<std::int64_t> times = arrivals(c.load, c.poisson, seed);
    ours += through_program(c.codel, times);
    theirs += through_ns3(c.codel, times);
    as_ours += CodelModel{false}.carry(c.codel, times);
    as_theirs += CodelModel{true}.carry(c.codel, times);
  }
  std::cout << c << "\n  the program: " << ours / kRuns << "\n  its model:   " << as_ours / kRuns
            << "\n  ns-3:        " << theirs / kRuns << "\n  its model:   " << as_theirs / kRuns
            << "\n";
  expect_like(ours / kRuns, as_ours / kRuns, "the program");
  expect_like(theirs / kRuns, as_theirs / kRuns, "ns-3");
}

// Marks change nothing for traffic that does not react. The n-th comes 100 ms / sqrt(n) after the
// one before, so that after 20 s and 10,000 marks each packet is marked: 50,000 of 60,000.
TEST(Codel, MarksWithoutReactionFollowTheLaw) {
  const Fate fate = through_program({.ecn = true}, arrivals(1.05, true));
  EXPECT_NEAR(fate.marked, 50.0 / 60, 0.005);
  EXPECT_EQ(fate.dropped, 0);
}

INSTANTIATE_TEST_SUITE_P(
    , CodelBesideNs3,
    ::testing::Values(CodelCase{0.9, true, {}}, CodelCase{0.97, true, {}},
                      CodelCase{1.05, true, {}}, CodelCase{1.2, true, {}},
                      CodelCase{1.05, false, {}}, CodelCase{0.97, true, {.ecn = true}},
                      CodelCase{1.05, true, {.ecn = true}},
                      CodelCase{0.97, true, {.target_us = 20'000, .interval_us = 50'000}}));

}  // namespace
}  // namespace tiercast::p4test
