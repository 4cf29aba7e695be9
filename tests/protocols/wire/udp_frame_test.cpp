#include "protocols/wire/udp_frame.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tiercast::wire {
namespace {

using Bytes = std::vector<std::byte>;

// Ones' complement addition in another way than the code's: arithmetic modulo 65535 instead of
// folding carries.
std::uint32_t sum_mod_65535(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::uint64_t weight = i % 2 == 0 ? 256 : 1;
    sum = (sum + weight * static_cast<std::uint64_t>(bytes[i])) % 65535;
  }
  return static_cast<std::uint32_t>(sum);
}

Bytes pseudo_header(std::span<const std::byte> ip) {
  Bytes out(ip.begin() + 12, ip.begin() + 20);
  const std::size_t udp_length = ip.size() - 20;
  out.insert(out.end(), {std::byte{0}, std::byte{17}, static_cast<std::byte>(udp_length >> 8),
                         static_cast<std::byte>(udp_length)});
  return out;
}

UdpFlow flow() {
  UdpFlow f;
  f.source_mac = {std::byte{2}};
  f.destination = 0xefc00009;
  f.destination_mac = multicast_mac(f.destination);
  f.source = 0x0a000002;
  f.source_port = 5500;
  f.destination_port = 5500;
  f.ecn = Ecn::kEct0;
  return f;
}

Bytes frame_of(std::size_t payload, std::uint16_t id = 1) {
  Bytes frame(kFrameHeaderBytes + payload);
  for (std::size_t i = 0; i < payload; ++i)
    frame[kFrameHeaderBytes + i] = static_cast<std::byte>(i);
  write_udp_headers(flow(), id, frame);
  return frame;
}

// RFC 1071 section 3's own example.
TEST(AgentUdpFrame, ChecksumOfRfc1071) {
  const Bytes bytes{std::byte{0x00}, std::byte{0x01}, std::byte{0xf2}, std::byte{0x03},
                    std::byte{0xf4}, std::byte{0xf5}, std::byte{0xf6}, std::byte{0xf7}};
  EXPECT_EQ(internet_checksum(bytes), static_cast<std::uint16_t>(~0xddf2));
}

TEST(AgentUdpFrame, LayoutIsEthernetIpv4Udp) {
  const Bytes frame = frame_of(3, 0xabcd);
  const std::vector<unsigned> expected{
      0x01, 0x00, 0x5e, 0x40, 0x00, 0x09, 0x02, 0,    0,  0, 0, 0, 0x08, 0x00,  // Ethernet
      0x45, 0x02, 0x00, 31,   0xab, 0xcd, 0x40, 0x00, 64, 17};  // IPv4 up to the checksum
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(static_cast<unsigned>(frame[i]), expected[i]) << "byte " << i;
  }
  const std::vector<unsigned> rest{10, 0, 0, 2, 239, 192, 0, 9, 0x15, 0x7c, 0x15, 0x7c, 0, 11};
  for (std::size_t i = 0; i < rest.size(); ++i) {
    EXPECT_EQ(static_cast<unsigned>(frame[26 + i]), rest[i]) << "byte " << 26 + i;
  }
}

TEST(AgentUdpFrame, ChecksumsHoldByAnotherArithmetic) {
  for (const std::size_t payload : {0, 1, 2, 31, 972, 1472, 8972}) {
    const Bytes frame = frame_of(payload, static_cast<std::uint16_t>(payload));
    const auto ip = std::span(frame).subspan(kEthernetBytes);
    EXPECT_EQ(sum_mod_65535(ip.first(20)), 0u) << payload;
    EXPECT_EQ((sum_mod_65535(pseudo_header(ip)) + sum_mod_65535(ip.subspan(20))) % 65535, 0u)
        << payload;
  }
}

// RFC 768: a computed checksum of zero is sent as all ones.
TEST(AgentUdpFrame, ZeroChecksumIsNeverSent) {
  bool met = false;
  for (unsigned word = 0; word < 65536; ++word) {
    Bytes frame(kFrameHeaderBytes + 2);
    frame[42] = static_cast<std::byte>(word >> 8);
    frame[43] = static_cast<std::byte>(word);
    write_udp_headers(flow(), 1, frame);
    ASSERT_FALSE(frame[40] == std::byte{0} && frame[41] == std::byte{0}) << word;
    met = met || (frame[40] == std::byte{0xff} && frame[41] == std::byte{0xff});
  }
  EXPECT_TRUE(met);
}

TEST(AgentUdpFrame, WhatIsWrittenIsRead) {
  const Bytes frame = frame_of(200);
  UdpPacket packet;
  ASSERT_EQ(parse_udp_frame(frame, packet), FrameError::kOk);
  EXPECT_EQ(packet.source, 0x0a000002u);
  EXPECT_EQ(packet.destination, 0xefc00009u);
  EXPECT_EQ(packet.source_port, 5500);
  EXPECT_EQ(packet.destination_port, 5500);
  EXPECT_EQ(packet.ip_length, 228u);
  EXPECT_EQ(packet.ecn, Ecn::kEct0);
  ASSERT_EQ(packet.payload.size(), 200u);
  EXPECT_EQ(packet.payload[199], std::byte{199});
}

TEST(AgentUdpFrame, OtherProtocolsOverIpv4AreWrittenAndRead) {
  Bytes frame(kEthernetBytes + kIpv4Bytes + 60, std::byte{7});
  Ipv4Flow flow;
  flow.source = 0x0a000002;
  flow.destination = 0x0a000103;
  flow.protocol = 6;
  flow.ecn = Ecn::kCe;
  write_ipv4_header(flow, 1, frame);
  Ipv4Packet packet;
  ASSERT_EQ(parse_ipv4_frame(frame, packet), FrameError::kOk);
  EXPECT_EQ(packet.source, 0x0a000002u);
  EXPECT_EQ(packet.destination, 0x0a000103u);
  EXPECT_EQ(packet.protocol, 6);
  EXPECT_EQ(packet.ip_length, 80u);
  EXPECT_EQ(packet.ecn, Ecn::kCe);
  EXPECT_EQ(packet.payload.size(), 60u);
  UdpPacket udp;
  EXPECT_EQ(parse_udp_frame(frame, udp), FrameError::kNotUdp);
}

TEST(AgentUdpFrame, EthernetPaddingIsIgnored) {
  Bytes frame = frame_of(4);
  frame.resize(60);
  UdpPacket packet;
  ASSERT_EQ(parse_udp_frame(frame, packet), FrameError::kOk);
  EXPECT_EQ(packet.payload.size(), 4u);
}

void fix_ip_checksum(Bytes& frame) {
  frame[24] = frame[25] = std::byte{0};
  const auto checksum = internet_checksum(std::span(frame).subspan(14, 20));
  frame[24] = static_cast<std::byte>(checksum >> 8);
  frame[25] = static_cast<std::byte>(checksum);
}

TEST(AgentUdpFrame, EachFaultHasItsError) {
  const auto with = [](std::size_t at, unsigned value, bool fix) {
    Bytes frame = frame_of(20);
    frame[at] = std::byte(value);
    if (fix) fix_ip_checksum(frame);
    UdpPacket packet;
    return parse_udp_frame(frame, packet);
  };
  EXPECT_EQ(with(12, 0x86, false), FrameError::kNotIpv4);
  EXPECT_EQ(with(14, 0x65, true), FrameError::kIpv4Header);  // version 6
  EXPECT_EQ(with(14, 0x44, true), FrameError::kIpv4Header);  // header of 16 bytes
  EXPECT_EQ(with(17, 19, true), FrameError::kIpv4Header);    // total length below the header
  EXPECT_EQ(with(17, 255, true), FrameError::kShort);        // total length beyond the frame
  EXPECT_EQ(with(22, 63, false), FrameError::kIpv4Checksum);
  EXPECT_EQ(with(20, 0x20, true), FrameError::kFragment);  // more fragments
  EXPECT_EQ(with(21, 1, true), FrameError::kFragment);     // offset 8 bytes
  EXPECT_EQ(with(23, 6, true), FrameError::kNotUdp);
  EXPECT_EQ(with(39, 27, false), FrameError::kUdpLength);
  EXPECT_EQ(with(39, 29, false), FrameError::kUdpLength);
  EXPECT_EQ(with(45, 77, false), FrameError::kUdpChecksum);
  for (std::size_t i = 0; i < kFrameErrors; ++i) {
    EXPECT_FALSE(name(static_cast<FrameError>(i)).empty());
  }
}

TEST(AgentUdpFrame, AbsentUdpChecksumIsAllowed) {
  Bytes frame = frame_of(20);
  frame[40] = frame[41] = std::byte{0};
  UdpPacket packet;
  EXPECT_EQ(parse_udp_frame(frame, packet), FrameError::kOk);
}

// Every truncation and 200,000 random mutations: no crash, and the payload never reaches beyond the
// frame.
TEST(AgentUdpFrame, NoInputReadsBeyondTheFrame) {
  const Bytes good = frame_of(100);
  UdpPacket packet;
  for (std::size_t size = 0; size < good.size(); ++size) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(parse_udp_frame(cut, packet), FrameError::kOk) << size;
  }
  const unsigned seed = 11;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 200'000; ++i) {
    Bytes frame = good;
    for (int changes = 0; changes < 3; ++changes) {
      frame[random() % 44] = static_cast<std::byte>(random());
    }
    if (i % 2 == 0) fix_ip_checksum(frame);
    frame.resize(random() % (frame.size() + 1));
    if (parse_udp_frame(frame, packet) == FrameError::kOk) {
      ASSERT_GE(packet.payload.data(), frame.data());
      ASSERT_LE(packet.payload.data() + packet.payload.size(), frame.data() + frame.size());
    }
  }
}

}  // namespace
}  // namespace tiercast::wire
