// Packets that are not from where they claim to be, and too much IGMP.
#include <gtest/gtest.h>

#include "tests/p4src/aggregation_model.h"
#include "tests/p4src/bench.h"

namespace tiercast::p4test {
namespace {

constexpr std::uint32_t kHost = 2, kOther = 3, kFormer = 4;

// The source, 10.0.0.2, is behind port 1. Host 10.0.1.2 is at port 2, host 10.0.2.2 at port 3. Port
// 4 leads to a switch, as port 1 does. Session 1's bottom layer goes to port 3.
class SourceChecks : public SwitchTest {
 protected:
  SourceChecks() {
    bench.host("10.0.0.2", kUp, 0x020000000002);
    bench.host("10.0.2.2", kOther, 0x020000000302);
    bench.subscribe_from(group(1, 0), 1, {kOther}, "10.0.0.2", kUp, kUp);
    bench.guard(kHost, "10.0.1.2");
    bench.guard(kOther, "10.0.2.2");
  }

  Packet layer(std::string_view source, std::uint32_t session = 1) {
    Packet packet = layer_packet(session, 0);
    packet.src = address(source);
    return packet;
  }
  Packet unicast(std::string_view source) {
    Packet packet;
    packet.src = address(source);
    packet.dst = address("10.0.0.2");
    return packet;
  }
  Packet report(std::string_view reporter) {
    Packet packet = igmp_report(group(1, 0));
    packet.src = address(reporter);
    return packet;
  }
  // The ports that the packet leaves from.
  Ports leaves(std::uint32_t port, const Packet& packet) {
    bench.clear();
    bench.receive(port, packet);
    bench.finish();
    return bench.ports_used();
  }
  void expect_refused(std::uint32_t port, const Packet& packet) {
    const auto before = bench.ingress(port, IngressFate::kRefused);
    EXPECT_EQ(leaves(port, packet), Ports{});
    EXPECT_TRUE(bench.punted().empty());
    EXPECT_EQ(bench.ingress(port, IngressFate::kRefused), before + 1);
    EXPECT_EQ(bench.entered_group(mgid_), entered_);
  }

  std::uint32_t mgid_ = 1;     // the replication group
  std::uint64_t entered_ = 0;  // packets that it has had
};

TEST_F(SourceChecks, ASessionIsForwardedFromItsSourceThroughItsPort) {
  EXPECT_EQ(leaves(kUp, layer("10.0.0.2")), Ports{kOther});
  EXPECT_EQ(bench.ingress(kUp, IngressFate::kForwarded), 1u);
  entered_ = 1;
  expect_refused(kUp, layer("10.0.1.2"));    // another source
  expect_refused(kHost, layer("10.0.0.2"));  // another port: a host that claims to be the source
  expect_refused(kHost, layer("10.0.1.2"));  // a host in its own name
  expect_refused(kFormer, layer("10.0.0.2"));
}

TEST_F(SourceChecks, WhatIsOnItsWayWhenAPathMovesIsForwarded) {
  bench.subscribe_from(group(1, 0), mgid_ = 2, {kOther}, "10.0.0.2", kFormer, kUp);
  EXPECT_EQ(leaves(kUp, layer("10.0.0.2")), Ports{kOther});
  EXPECT_EQ(leaves(kFormer, layer("10.0.0.2")), Ports{kOther});
  entered_ = 2;
  expect_refused(kHost, layer("10.0.0.2"));
  expect_refused(kFormer, layer("10.0.1.2"));
}

TEST_F(SourceChecks, AGroupOfAnySourceIsForwardedFromAHostInItsOwnName) {
  bench.subscribe(group(2, 0), mgid_ = 2, {kOther});
  EXPECT_EQ(leaves(kHost, layer("10.0.1.2", 2)), Ports{kOther});
  EXPECT_EQ(leaves(kUp, layer("10.9.9.9", 2)), Ports{kOther});  // a switch has checked
  entered_ = 2;
  expect_refused(kHost, layer("10.0.2.2", 2));
}

TEST_F(SourceChecks, AHostSendsItsOwnUnicastAddressAlone) {
  EXPECT_EQ(leaves(kHost, unicast("10.0.1.2")), Ports{kUp});
  EXPECT_EQ(leaves(kUp, unicast("10.0.1.2")), Ports{kUp});
  for (const auto* claimed : {"10.0.2.2", "10.0.0.2", "0.0.0.0", "255.255.255.255"}) {
    expect_refused(kHost, unicast(claimed));
  }
}

// A summary's sender is a switch, which no host can be.
TEST_F(SourceChecks, ForgedFeedbackReachesNoAggregator) {
  bench.aggregate(1, {});
  Packet forged = feedback_packet({1, 20, 7, 0, 0, {{0, 1, 0, 1000, 1000, 1}}});
  forged.src = address("10.0.2.2");
  expect_refused(kHost, forged);
  EXPECT_EQ(bench.ingress(kHost, IngressFate::kAggregated), 0u);
  forged.src = address("10.0.1.2");
  leaves(kHost, forged);
  EXPECT_EQ(bench.ingress(kHost, IngressFate::kAggregated), 1u);
}

TEST_F(SourceChecks, AHostReportsInItsOwnNameAlone) {
  leaves(kHost, report("10.0.1.2"));
  EXPECT_EQ(bench.punted().size(), 1u);
  expect_refused(kHost, report("10.0.2.2"));
  leaves(kHost, report("10.0.1.2"));
  EXPECT_EQ(bench.punted().size(), 1u);
}

// A token bucket (RFC 2698 with both rates the same): in each second `rate` reports pass, after
// `burst` at once. A port's flood leaves another port's reports alone.
TEST_F(SourceChecks, IgmpIsLimitedForEachPort) {
  bench.limit_igmp(kHost, 200, 50);
  bench.limit_igmp(kOther, 200, 50);
  constexpr unsigned kFlood = 2000;
  for (unsigned sent = 0; sent < kFlood; ++sent) {
    bench.receive(kHost, report("10.0.1.2"));
    if (sent % 100 == 0) bench.receive(kOther, report("10.0.2.2"));
    bench.advance(500'000);  // 2000 a second
  }
  EXPECT_EQ(bench.ingress(kOther, IngressFate::kToController), kFlood / 100);
  EXPECT_EQ(bench.ingress(kOther, IngressFate::kPoliced), 0u);
  const auto passed = bench.ingress(kHost, IngressFate::kToController);
  EXPECT_NEAR(static_cast<double>(passed), 200 + 50, 1);
  EXPECT_EQ(bench.ingress(kHost, IngressFate::kPoliced), kFlood - passed);
  EXPECT_EQ(bench.punted().size(), passed + kFlood / 100);
}

TEST_F(SourceChecks, WithoutALimitAllIgmpGoesToTheController) {
  for (unsigned sent = 0; sent < 1000; ++sent) bench.receive(kHost, report("10.0.1.2"));
  EXPECT_EQ(bench.punted().size(), 1000u);
}

}  // namespace
}  // namespace tiercast::p4test
