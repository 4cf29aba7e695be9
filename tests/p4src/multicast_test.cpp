// Replication, IGMP to the controller, and frames from the controller.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/p4src/bench.h"

namespace tiercast::p4test {
namespace {

class Multicast : public SwitchTest {
 protected:
  Ports ports_for(std::uint32_t ingress_port, const Packet& packet) {
    bench.clear();
    bench.receive(ingress_port, packet);
    bench.finish();
    return bench.ports_used();
  }
};

TEST_F(Multicast, AGroupGoesToItsPorts) {
  bench.subscribe(group(1, 0), 1, {2, 3, 4});
  bench.subscribe(group(1, 1), 2, {3});
  EXPECT_EQ(ports_for(1, layer_packet(1, 0)), (Ports{2, 3, 4}));
  EXPECT_EQ(ports_for(1, layer_packet(1, 1)), (Ports{3}));
}

TEST_F(Multicast, CopiesKeepTheGroupsMacAndLoseOneHop) {
  bench.subscribe(group(1, 0), 1, {2, 3});
  const Packet packet = layer_packet(1, 0);
  ports_for(1, packet);
  ASSERT_EQ(bench.sent().size(), 2u);
  for (const Sent& copy : bench.sent()) {
    EXPECT_EQ(dst_mac(copy.frame), packet.dst_mac);
    EXPECT_EQ(src_mac(copy.frame), packet.src_mac);
    EXPECT_EQ(ttl(copy.frame), packet.ttl - 1);
    EXPECT_TRUE(checksum_right(copy.frame));
    EXPECT_EQ(ip_payload(copy.frame), packet.payload);
  }
}

TEST_F(Multicast, NoCopyGoesBackToTheIngressPort) {
  bench.subscribe(group(1, 0), 1, {1, 2, 3});
  EXPECT_EQ(ports_for(1, layer_packet(1, 0)), (Ports{2, 3}));
  EXPECT_EQ(ports_for(2, layer_packet(1, 0)), (Ports{1, 3}));
  EXPECT_EQ(bench.egress(1), (EgressFates{.left = 1, .pruned = 1}));
}

TEST_F(Multicast, AUnicastPacketMayGoBack) {
  bench.host("10.0.1.2", 1, 0x020000000202);
  EXPECT_EQ(ports_for(1, Packet{}), (Ports{1}));
}

TEST_F(Multicast, AGroupWithoutSubscriberIsDropped) {
  bench.subscribe(group(1, 0), 1, {2});
  EXPECT_EQ(ports_for(1, layer_packet(1, 1)), Ports{});
  EXPECT_EQ(ports_for(1, layer_packet(2, 0)), Ports{});
}

TEST_F(Multicast, GroupsAreNotLookedUpAmongUnicastRoutes) {
  bench.prefix("0.0.0.0", 0, 2, 0x020000000202);
  EXPECT_EQ(ports_for(1, layer_packet(1, 0)), Ports{});
}

TEST_F(Multicast, TheLastHopIsDropped) {
  bench.subscribe(group(1, 0), 1, {2});
  Packet packet = layer_packet(1, 0);
  packet.ttl = 1;
  EXPECT_EQ(ports_for(1, packet), Ports{});
  packet.ttl = 2;
  EXPECT_EQ(ports_for(1, packet), (Ports{2}));
}

TEST_F(Multicast, GroupsOutsideOfSessionsAreReplicatedToo) {
  const std::uint32_t other = address("239.1.2.3");
  bench.subscribe(other, 7, {2, 4});
  Packet packet;
  packet.dst = other;
  packet.dst_mac = group_mac(other);
  EXPECT_EQ(ports_for(1, packet), (Ports{2, 4}));
}

class Igmp : public Multicast {};

TEST_F(Igmp, GoesToTheControllerWithItsIngressPortAndNowhereElse) {
  bench.subscribe(group(1, 0), 1, {2, 3});
  for (std::uint32_t port = 1; port <= 4; ++port) {
    const Packet report = igmp_report(group(1, 0));
    EXPECT_EQ(ports_for(port, report), Ports{});
    ASSERT_EQ(bench.punted().size(), 1u);
    EXPECT_EQ(bench.punted()[0], with_port(port, report.bytes()));
  }
}

TEST_F(Igmp, WithAndWithoutRouterAlert) {
  Packet report = igmp_report(address("224.0.0.22"));
  ports_for(3, report);
  report.options.clear();
  bench.receive(3, report);
  EXPECT_EQ(bench.punted().size(), 2u);
}

TEST_F(Igmp, AWrongChecksumIsDropped) {
  Packet report = igmp_report(group(1, 0));
  report.options.clear();
  report.checksum = 1;
  ports_for(1, report);
  EXPECT_TRUE(bench.punted().empty());
}

class FromController : public Multicast {
 protected:
  Ports ports_for_packet_out(const Frame& frame) {
    bench.clear();
    bench.receive(kCpuPort, frame);
    bench.finish();
    return bench.ports_used();
  }
};

TEST_F(FromController, AFrameLeavesAsItIsOnThePortNamed) {
  Packet query = igmp_report(address("224.0.0.1"));
  for (std::uint32_t port = 1; port <= 4; ++port) {
    EXPECT_EQ(ports_for_packet_out(with_port(port, query.bytes())), (Ports{port}));
    EXPECT_EQ(bench.sent()[0].frame, query.bytes());
    EXPECT_TRUE(bench.punted().empty());
  }
}

TEST_F(FromController, AnyFrameMayLeave) {
  Packet arp;
  arp.ether_type = 0x0806;
  EXPECT_EQ(ports_for_packet_out(with_port(2, arp.bytes())), (Ports{2}));
  EXPECT_EQ(bench.sent()[0].frame, arp.bytes());
}

TEST_F(FromController, AFrameTooShortForItsHeadersIsDropped) {
  const Frame whole = with_port(2, Packet{}.bytes());
  for (std::size_t size = 0; size <= 2 + kEthernetBytes; ++size) {
    const Frame cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(ports_for_packet_out(cut), size < 2 + kEthernetBytes ? Ports{} : Ports{2}) << size;
  }
}

}  // namespace
}  // namespace tiercast::p4test
