// PIE in the P4 program, at departure, compared with ns-3's PieQueueDisc, on arrival, for the same
// arrivals.
// SPDX-License-Identifier: GPL-2.0-only
#include <gtest/gtest.h>
#include <ns3/boolean.h>
#include <ns3/nstime.h>
#include <ns3/pie-queue-disc.h>
#include <ns3/string.h>
#include <ns3/uinteger.h>

#include <ostream>

#include "tests/ns3/beside_queue_disc.h"

namespace tiercast::p4test {
namespace {

struct PieCase {
  double load;
  bool poisson, ecn;
};

std::ostream& operator<<(std::ostream& out, const PieCase& c) {
  return out << (c.poisson ? "Poisson" : "steady") << (c.ecn ? ", ECN" : "") << " at load "
             << c.load;
}

Fate through_program(const PieCase& c, const std::vector<std::int64_t>& times, std::uint64_t seed) {
  Bench bench(seed);
  bench.limit(kPort, 8e6, 0);
  bench.host("10.0.1.2", kPort, 0x020000000202);
  PiParameters pie;
  pie.alpha *= PiParameters::kPeriod / 0.015;
  pie.mark_below = c.ecn ? 0.1 : 0;
  bench.pie(kPort, pie);
  return carry(bench, times);
}

Fate through_ns3(const PieCase& c, const std::vector<std::int64_t>& times, std::int64_t stream) {
  const auto disc = ns3::CreateObject<ns3::PieQueueDisc>();
  disc->SetAttribute("MaxSize", ns3::StringValue("100000p"));
  disc->SetAttribute("MeanPktSize", ns3::UintegerValue(kIpBytes));
  disc->SetAttribute("UseEcn", ns3::BooleanValue(c.ecn));
  disc->AssignStreams(stream);
  disc->Initialize();
  return Ns3Link(disc).carry(times);
}

class PieBesideNs3 : public ::testing::TestWithParam<PieCase> {};

// Both keep the delay at the target by dropping what the link cannot carry.
TEST_P(PieBesideNs3, SameArrivals) {
  constexpr std::uint64_t kRuns = 4;
  const PieCase& c = GetParam();
  Fate ours, theirs;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    const std::vector<std::int64_t> times = arrivals(c.load, c.poisson, seed);
    ours += through_program(c, times, seed);
    theirs += through_ns3(c, times, static_cast<std::int64_t>(seed));
  }
  ours = ours / kRuns;
  theirs = theirs / kRuns;
  std::cout << c << ": " << ours << "; ns-3: " << theirs << "\n";
  EXPECT_NEAR(ours.dropped, theirs.dropped, 0.005);
  EXPECT_NEAR(ours.marked, theirs.marked, 0.005);
  EXPECT_NEAR(ours.wait, theirs.wait, 0.1 * theirs.wait);
  EXPECT_NEAR(ours.carried, theirs.carried, 0.005);
}

INSTANTIATE_TEST_SUITE_P(, PieBesideNs3,
                         ::testing::Values(PieCase{0.9, true, false}, PieCase{0.97, true, false},
                                           PieCase{1.05, true, false}, PieCase{1.2, true, false},
                                           PieCase{1.05, false, false}, PieCase{1.05, true, true}));

}  // namespace
}  // namespace tiercast::p4test
