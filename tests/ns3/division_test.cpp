// Which switches share a logical process and a thread. SPDX-License-Identifier: GPL-2.0-only
#include "ns3/network/division.h"

#include <gmock/gmock.h>

#include <string>

#include "protocols/base/units.h"

namespace tiercast::ns3_runtime {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kMs = 1'000'000;

// Switches s0, s1, ... in a row, each with a host.
v1::Scenario row(const std::vector<std::int64_t>& delays_ns) {
  v1::Scenario result;
  result.set_control_delay_ns(10 * kMs);
  for (std::size_t i = 0; i <= delays_ns.size(); ++i) {
    v1::SimulatedSwitch& one = *result.add_switches();
    one.set_name("s" + std::to_string(i));
    const auto add = [&](std::uint32_t number, std::size_t peer, std::uint32_t peer_port,
                         std::int64_t delay_ns) {
      v1::SimulatedPort& port = *one.add_ports();
      port.set_port(number);
      port.set_peer((peer_port == 0 ? "h" : "s") + std::to_string(peer));
      port.set_peer_port(peer_port);
      port.set_delay_ns(delay_ns);
    };
    add(1, i, 0, 0);
    if (i > 0) add(2, i - 1, 3, delays_ns[i - 1]);
    if (i < delays_ns.size()) add(3, i + 1, 2, delays_ns[i]);
    v1::SimulatedHost& host = *result.add_hosts();
    host.set_name("h" + std::to_string(i));
    host.set_switch_("s" + std::to_string(i));
  }
  return result;
}

TEST(Division, AProcessIsASwitchAndAWindowTheShortestLink) {
  const Division division = divide(row({5 * kMs, 2 * kMs, 7 * kMs}), 1);
  EXPECT_THAT(division.process_of, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(division.thread_of, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(division.window_ns, 2 * kMs);
}

TEST(Division, ShortLinksJoinTheirSwitches) {
  const Division division = divide(row({5 * kMs, 0, 7 * kMs}), 1);
  EXPECT_THAT(division.process_of, ElementsAre(0, 1, 1, 2));
  EXPECT_EQ(division.window_ns, 5 * kMs);
}

TEST(Division, AWindowIsNoLongerThanAnyDelayDuringTheRun) {
  v1::Scenario scenario = row({50 * kMs, 50 * kMs});
  EXPECT_EQ(divide(scenario, 1).window_ns, 10 * kMs);  // the controller's
  v1::PortChange& change = *scenario.add_changes();
  change.set_switch_("s1");
  change.set_port(3);
  change.set_delay_ns(3 * kMs);
  EXPECT_EQ(divide(scenario, 1).window_ns, 3 * kMs);
}

TEST(Division, SwitchesWithHostsOfTcpAreOneProcess) {
  v1::Scenario scenario = row({5 * kMs, 5 * kMs, 5 * kMs});
  v1::TcpFlow& flow = *scenario.add_tcp();
  flow.set_source("h1");
  flow.set_destination("h3");
  EXPECT_THAT(divide(scenario, 1).process_of, ElementsAre(0, 1, 2, 1));
}

TEST(Division, ThreadsGetNeighboursAndEqualShares) {
  const Division division = divide(row(std::vector<std::int64_t>(7, 5 * kMs)), 2);
  EXPECT_THAT(division.thread_of, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_EQ(division.process_of, divide(row(std::vector<std::int64_t>(7, 5 * kMs)), 1).process_of);
}

TEST(Division, NoThreadIsWithoutAProcess) {
  EXPECT_THAT(divide(row({5 * kMs}), 8).thread_of, ElementsAre(0, 1));
  EXPECT_THAT(divide(row({0}), 8).thread_of, ElementsAre(0));
}

TEST(Division, NamesWhatIsMissing) {
  v1::Scenario scenario = row({5 * kMs});
  scenario.mutable_switches(0)->mutable_ports(1)->set_peer("s9");
  EXPECT_THROW(divide(scenario, 1), ConfigError);
}

}  // namespace
}  // namespace tiercast::ns3_runtime
