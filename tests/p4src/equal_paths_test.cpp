// Unicast over equal paths: which next hop a packet takes, by CRC-32 of its flow.
#include <gtest/gtest.h>

#include <random>
#include <string_view>

#include "tests/p4src/bench.h"

namespace tiercast::p4test {
namespace {

constexpr std::uint32_t kFirst = 40;                 // place of the next hops
constexpr std::uint32_t kMultiplier = 0x9e3779b1;    // odd
constexpr std::uint64_t kFirstMac = 0x020000000200;  // and the port
constexpr std::uint32_t kPorts[] = {2, 3, 4};
constexpr std::uint32_t kPaths = 3;  // of them

// Bit by bit: the polynomial of IEEE 802.3, reflected.
std::uint32_t crc32(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

void append(Frame& to, std::uint64_t value, int bytes) {
  while (bytes-- > 0) to.push_back(static_cast<std::byte>(value >> (8 * bytes)));
}

struct UdpPorts {
  std::uint16_t source = 0, destination = 0;
};

// Of a packet whose protocol has ports, the payload; of UDP a whole header.
Frame with_ports(UdpPorts ports, std::size_t bytes = 40) {
  Frame payload;
  append(payload, ports.source, 2);
  append(payload, ports.destination, 2);
  append(payload, bytes, 2);
  payload.resize(bytes);
  return payload;
}

std::uint32_t flow_hash(const Packet& packet, UdpPorts ports) {
  Frame packed;
  append(packed, packet.src, 4);
  append(packed, packet.dst, 4);
  append(packed, ports.source, 2);
  append(packed, ports.destination, 2);
  append(packed, packet.protocol, 1);
  return crc32(packed);
}

class EqualPaths : public SwitchTest {
 protected:
  EqualPaths() {
    for (std::uint32_t i = 0; i < kPaths; ++i) {
      bench.next_hop(kFirst + i, kPorts[i], kFirstMac + kPorts[i]);
    }
    bench.spread("10.0.0.0", 8, kFirst, kPaths, kMultiplier);
  }

  // The port that it left on; 0: none.
  std::uint32_t port_of(const Packet& packet) {
    bench.clear();
    bench.receive(1, packet);
    bench.finish();
    const auto used = bench.ports_used();
    return used.empty() ? 0 : used[0];
  }

  static std::uint32_t wanted(std::uint32_t hash, std::uint32_t count = kPaths,
                              std::uint32_t multiplier = kMultiplier) {
    const std::uint32_t upper = (hash * multiplier) >> 16;
    return kPorts[(upper * count) >> 16];
  }

  Packet drawn() {
    Packet packet;
    packet.src = static_cast<std::uint32_t>(random());
    packet.dst = address("10.0.0.0") + draw(random, 1 << 24);
    packet.protocol = draw(random, 2) == 0 ? kTcp : kUdp;
    ports = {static_cast<std::uint16_t>(random()), static_cast<std::uint16_t>(random())};
    packet.payload = with_ports(ports);
    return packet;
  }

  std::mt19937 random{20261124};
  UdpPorts ports;  // of the packet drawn last
};

TEST_F(EqualPaths, TheHashIsCrc32) {
  // The check value by which catalogues name this CRC.
  Frame digits;
  for (const char digit : std::string_view("123456789")) digits.push_back(std::byte(digit));
  EXPECT_EQ(crc32(digits), 0xcbf43926);
  // tests/controller/test_flow_hash.py has the same, from zlib.
  Packet packet;
  packet.protocol = kTcp;
  EXPECT_EQ(flow_hash(packet, {5502, 80}), 0x3f77e784);
}

TEST_F(EqualPaths, APacketTakesTheHopOfItsFlowsHash) {
  for (int i = 0; i < 2000; ++i) {
    const Packet packet = drawn();
    ASSERT_EQ(port_of(packet), wanted(flow_hash(packet, ports))) << "packet " << i;
  }
}

TEST_F(EqualPaths, ItIsForwardedAsOverOnePath) {
  const Packet packet = drawn();
  const std::uint32_t port = port_of(packet);
  const Frame in = packet.bytes();
  const Frame& out = bench.sent()[0].frame;
  EXPECT_EQ(dst_mac(out), kFirstMac + port);
  EXPECT_EQ(src_mac(out), packet.dst_mac);
  EXPECT_EQ(ttl(out), ttl(in) - 1);
  EXPECT_TRUE(checksum_right(out));
  EXPECT_EQ(ip_payload(out), ip_payload(in));
  EXPECT_EQ(bench.ingress(1, IngressFate::kForwarded), 1);
  EXPECT_EQ(bench.entered_port(port), 1);
}

TEST_F(EqualPaths, AllFragmentsOfAPacketTakeOnePath) {
  for (int i = 0; i < 200; ++i) {
    Packet packet = drawn();
    const std::uint32_t port = wanted(flow_hash(packet, {}));
    packet.flags = kMoreFragments;
    ASSERT_EQ(port_of(packet), port);
    packet.frag_offset = 5;
    ASSERT_EQ(port_of(packet), port);
    packet.flags = 0;
    ASSERT_EQ(port_of(packet), port);
  }
}

TEST_F(EqualPaths, WithoutPortsAtTheirPlaceTheyCountAsZero) {
  for (int i = 0; i < 200; ++i) {
    Packet packet = drawn();
    packet.options = Frame(4, std::byte{1});
    ASSERT_EQ(port_of(packet), wanted(flow_hash(packet, {})));
    packet.options.clear();
    for (const std::size_t bytes : {0u, 3u}) {
      packet.payload.resize(bytes);
      ASSERT_EQ(port_of(packet), wanted(flow_hash(packet, {}))) << bytes << " bytes";
    }
    packet = drawn();
    packet.protocol = 47;  // GRE
    ASSERT_EQ(port_of(packet), wanted(flow_hash(packet, {})));
  }
}

// The ports alone say where it goes, whatever else of its header is set.
TEST_F(EqualPaths, AShortTcpHeaderHasPorts) {
  Packet packet = drawn();
  packet.protocol = kTcp;
  packet.payload.resize(4);
  EXPECT_EQ(port_of(packet), wanted(flow_hash(packet, ports)));
}

TEST_F(EqualPaths, TheMostSpecificEntryCountsAndOneNextHopComesFirst) {
  bench.spread("10.1.0.0", 16, kFirst, 2, 1);
  bench.spread("10.1.1.2", 32, kFirst + 2, 1, 1);
  bench.prefix("10.2.0.0", 16, 1, kFirstMac);
  bench.host("10.1.2.2", 1, kFirstMac);
  for (int i = 0; i < 200; ++i) {
    Packet packet = drawn();
    packet.dst = address("10.1.1.1");
    ASSERT_EQ(port_of(packet), wanted(flow_hash(packet, ports), 2, 1));
    packet.dst = address("10.1.1.2");
    ASSERT_EQ(port_of(packet), kPorts[2]);
  }
  Packet packet = drawn();
  for (const char* to : {"10.2.3.4", "10.1.2.2"}) {
    packet.dst = address(to);
    EXPECT_EQ(port_of(packet), 1);
  }
}

TEST_F(EqualPaths, AHopWithoutAnEntryIsNoRoute) {
  bench.spread("10.1.0.0", 16, 7, 1, kMultiplier);
  Packet packet = drawn();
  packet.dst = address("10.1.0.1");
  EXPECT_EQ(port_of(packet), 0);
  EXPECT_EQ(bench.ingress(1, IngressFate::kNoRoute), 1);
}

TEST_F(EqualPaths, TheLastPartOfTheRangeIsTheLastHop) {
  // Of 65535 parts, the upper half of the product is its own place, or the one before.
  bench.spread("10.1.0.0", 16, 1000, 0xffff, 1);
  for (int i = 0; i < 200; ++i) {
    Packet packet = drawn();
    packet.dst = address("10.1.0.1");
    const std::uint32_t upper = flow_hash(packet, ports) >> 16;
    const std::uint32_t place = (1000 + ((upper * 0xffff) >> 16)) & 0xffff;
    bench.next_hop(place, 4, kFirstMac);
    ASSERT_EQ(port_of(packet), 4) << upper;
    bench.no_next_hop(place);
  }
}

}  // namespace
}  // namespace tiercast::p4test
