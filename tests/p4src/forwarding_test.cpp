// Unicast: exact match before longest prefix, next hop, checksum, and unusual packets.
#include <gtest/gtest.h>

#include <random>

#include "tests/p4src/bench.h"

namespace tiercast::p4test {
namespace {

constexpr std::uint64_t kMac2 = 0x020000000202;
constexpr std::uint64_t kMac3 = 0x020000000303;
constexpr std::uint64_t kMac4 = 0x020000000404;

class Forwarding : public SwitchTest {
 protected:
  Forwarding() { bench.host("10.0.1.2", 2, kMac2); }

  std::vector<std::uint32_t> ports_for(const Packet& packet) {
    bench.clear();
    bench.receive(1, packet);
    bench.finish();
    return bench.ports_used();
  }
  std::vector<std::uint32_t> ports_for(std::string_view to) {
    Packet packet;
    packet.dst = address(to);
    return ports_for(packet);
  }
  void expect_forwarded(const Packet& packet) {
    ASSERT_EQ(ports_for(packet), std::vector<std::uint32_t>{2});
    const Frame in = packet.bytes();
    const Frame& out = bench.sent()[0].frame;
    ASSERT_EQ(out.size(), in.size());
    EXPECT_EQ(ttl(out), ttl(in) - 1);
    EXPECT_EQ(checksum_right(out), checksum_right(in));
    EXPECT_EQ(ip_payload(out), ip_payload(in));
  }
  void expect_dropped(const Packet& packet) {
    EXPECT_TRUE(ports_for(packet).empty());
    EXPECT_TRUE(bench.punted().empty());
  }
};

const std::vector<std::uint32_t> kNowhere;

TEST_F(Forwarding, AHostIsReachedAtItsPortAndMac) {
  const Packet packet;
  expect_forwarded(packet);
  const Frame& out = bench.sent()[0].frame;
  EXPECT_EQ(dst_mac(out), kMac2);
  EXPECT_EQ(src_mac(out), packet.dst_mac);
  EXPECT_EQ(dst(out), packet.dst);
}

TEST_F(Forwarding, HostsComeBeforePrefixesAndLongPrefixesBeforeShortOnes) {
  bench.prefix("10.0.0.0", 8, 3, kMac3);
  bench.prefix("10.0.1.0", 24, 4, kMac4);
  EXPECT_EQ(ports_for("10.0.1.2"), std::vector<std::uint32_t>{2});
  EXPECT_EQ(ports_for("10.0.1.3"), std::vector<std::uint32_t>{4});
  EXPECT_EQ(dst_mac(bench.sent()[0].frame), kMac4);
  EXPECT_EQ(ports_for("10.0.2.2"), std::vector<std::uint32_t>{3});
  EXPECT_EQ(ports_for("11.0.1.2"), kNowhere);
  bench.prefix("0.0.0.0", 0, 1, kMac4);
  EXPECT_EQ(ports_for("11.0.1.2"), std::vector<std::uint32_t>{1});
}

TEST_F(Forwarding, APrefixMayDrop) {
  bench.prefix("10.0.0.0", 8, 3, kMac3);
  bench.drop_prefix("10.0.2.0", 24);
  EXPECT_EQ(ports_for("10.0.3.1"), std::vector<std::uint32_t>{3});
  EXPECT_EQ(ports_for("10.0.2.1"), kNowhere);
}

TEST_F(Forwarding, UnknownDestinationsAreDropped) { EXPECT_EQ(ports_for("10.0.9.9"), kNowhere); }

TEST_F(Forwarding, TheLastHopIsDropped) {
  Packet packet;
  for (unsigned hops : {0u, 1u}) {
    packet.ttl = static_cast<std::uint8_t>(hops);
    expect_dropped(packet);
  }
  for (unsigned hops : {2u, 3u, 128u, 255u}) {
    packet.ttl = static_cast<std::uint8_t>(hops);
    expect_forwarded(packet);
  }
}

// The checksum is adjusted word by word, and every carry must come out right.
TEST_F(Forwarding, ChecksumsStayRightForAnyHeader) {
  constexpr unsigned kSeed = 20260101;
  std::mt19937 random(kSeed);
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  for (int i = 0; i < 2000; ++i) {
    Packet packet;
    packet.src = static_cast<std::uint32_t>(random());
    packet.identification = static_cast<std::uint16_t>(random());
    packet.dscp = random() % 64;
    packet.ecn = random() % 4;
    packet.flags = random() % 8;
    packet.frag_offset = random() % 8192;
    packet.protocol = static_cast<std::uint8_t>(3 + draw(random, 253));  // not IGMP
    packet.ttl = static_cast<std::uint8_t>(2 + random() % 254);
    expect_forwarded(packet);
    ASSERT_TRUE(checksum_right(bench.sent()[0].frame)) << "packet " << i;
  }
}

// RFC 1624: adjusting goes wrong at the two zeros of one's complement.
TEST_F(Forwarding, ChecksumsStayRightNextToZero) {
  Packet packet;
  for (unsigned id = 0; id <= 0xffff; ++id) {
    packet.identification = static_cast<std::uint16_t>(id);
    const std::uint16_t sum = checksum(packet.bytes());
    if (sum >= 0x0200 && sum < 0xfe00) continue;
    expect_forwarded(packet);
    ASSERT_TRUE(checksum_right(bench.sent()[0].frame)) << "checksum " << sum;
  }
}

TEST_F(Forwarding, AWrongChecksumIsDropped) {
  Packet packet;
  packet.checksum = 0x1234;
  expect_dropped(packet);
}

TEST_F(Forwarding, HeadersThatContradictThemselvesAreDropped) {
  Packet packet;
  packet.payload.resize(40);
  for (unsigned version : {0u, 5u, 6u, 15u}) {
    Packet wrong = packet;
    wrong.version = static_cast<std::uint8_t>(version);
    expect_dropped(wrong);
  }
  for (unsigned ihl : {0u, 4u}) {
    Packet wrong = packet;
    wrong.ihl = static_cast<std::uint8_t>(ihl);
    expect_dropped(wrong);
  }
  for (unsigned total_len : {0u, 19u, 61u, 65535u}) {
    Packet wrong = packet;
    wrong.total_len = static_cast<std::uint16_t>(total_len);
    expect_dropped(wrong);
  }
  Packet long_header = packet;
  long_header.ihl = 15;  // 60 bytes, the longest header
  EXPECT_EQ(ports_for(long_header), std::vector<std::uint32_t>{2});
  long_header.total_len = 59;
  expect_dropped(long_header);
}

TEST_F(Forwarding, EthernetPaddingStaysBehindThePacket) {
  Packet packet;
  packet.payload.resize(26);  // 60 bytes of frame
  packet.total_len = 20;
  expect_forwarded(packet);
}

TEST_F(Forwarding, OptionsPassAndTheChecksumStaysRight) {
  Packet packet;
  for (std::size_t bytes = 4; bytes <= 40; bytes += 4) {
    packet.options.assign(bytes, std::byte{0x01});  // no operation
    packet.payload = udp(5500, Frame(16));
    expect_forwarded(packet);
    EXPECT_TRUE(checksum_right(bench.sent()[0].frame));
  }
}

TEST_F(Forwarding, AWrongChecksumOverOptionsStaysWrong) {
  Packet packet;
  packet.options.assign(4, std::byte{0x01});
  packet.checksum = 0x1234;
  expect_forwarded(packet);
  EXPECT_FALSE(checksum_right(bench.sent()[0].frame));
}

TEST_F(Forwarding, FragmentsPass) {
  Packet packet;
  packet.flags = kMoreFragments;
  packet.payload = udp(5500, Frame(64));
  expect_forwarded(packet);
  packet.flags = 0;
  packet.frag_offset = 9;  // the bytes that follow are no UDP header, though they may look like one
  expect_forwarded(packet);
}

TEST_F(Forwarding, OtherProtocolsPass) {
  Packet packet;
  packet.protocol = kTcp;
  packet.payload.resize(20);
  for (unsigned codepoint : {kNotEct, kEct1, kEct0, kCe}) {
    packet.ecn = static_cast<std::uint8_t>(codepoint);
    expect_forwarded(packet);
    EXPECT_EQ(ecn(bench.sent()[0].frame), codepoint);
  }
}

TEST_F(Forwarding, OtherEthernetTypesAreDropped) {
  Packet packet;
  for (unsigned type : {0x0806u, 0x86ddu, 0x8100u, 0x05dcu}) {
    packet.ether_type = static_cast<std::uint16_t>(type);
    expect_dropped(packet);
  }
}

// RFC 1812, 5.3.4: otherwise each router on a segment would forward it.
TEST_F(Forwarding, UnicastPacketsInFramesForManyAreDropped) {
  Packet packet;
  packet.dst_mac = 0xffffffffffff;
  expect_dropped(packet);
  packet.dst_mac = 0x01005e000001;
  expect_dropped(packet);
}

}  // namespace
}  // namespace tiercast::p4test
