#include "dataplane/switch/port/checksum.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tiercast::vswitch {
namespace {

std::vector<std::byte> bytes(std::initializer_list<unsigned> values) {
  std::vector<std::byte> out;
  for (const unsigned value : values) out.push_back(std::byte(value));
  return out;
}

// 10.0.0.1:1024 -> 10.0.0.2:5500 with payload "abc" and an invalid checksum.
std::vector<std::byte> udp_frame() {
  return bytes({2,    0,    0,    0,    0, 2,  2,    0,    0,   0,   0,  1, 0x08, 0x00,  //
                0x45, 0,    0,    31,   0, 0,  0,    0,    64,  17,  0,  0, 10,   0,
                0,    1,    10,   0,    0, 2,  //
                0x04, 0x00, 0x15, 0x7c, 0, 11, 0x12, 0x34, 'a', 'b', 'c'});
}

// By hand: pseudo header 0a00+0001+0a00+0002+0011+000b = 141f; header 0400+157c+000b = 1987;
// payload 6162+6300 = c462; sum f208, its complement 0df7.
TEST(Checksum, UdpOverIpv4) {
  auto frame = udp_frame();
  ASSERT_TRUE(complete_checksum(frame));
  EXPECT_EQ(frame[40], std::byte{0x0d});
  EXPECT_EQ(frame[41], std::byte{0xf7});
}

TEST(Checksum, PaddingBehindThePacketDoesNotCount) {
  auto frame = udp_frame();
  frame.resize(60, std::byte{0xee});
  ASSERT_TRUE(complete_checksum(frame));
  EXPECT_EQ(frame[40], std::byte{0x0d});
  EXPECT_EQ(frame[41], std::byte{0xf7});
}

TEST(Checksum, BehindAVlanTag) {
  auto frame = udp_frame();
  const auto tag = bytes({0x81, 0x00, 0x00, 0x05});
  frame.insert(frame.begin() + 12, tag.begin(), tag.end());
  ASSERT_TRUE(complete_checksum(frame));
  EXPECT_EQ(frame[44], std::byte{0x0d});
  EXPECT_EQ(frame[45], std::byte{0xf7});
}

TEST(Checksum, WhatItCannotCompleteIsLeftAlone) {
  auto other_protocol = udp_frame();
  other_protocol[23] = std::byte{132};
  auto fragment = udp_frame();
  fragment[20] = std::byte{0x20};
  auto longer_than_the_frame = udp_frame();
  longer_than_the_frame[17] = std::byte{200};
  auto short_header = udp_frame();
  short_header[14] = std::byte{0x43};
  auto truncated = udp_frame();
  truncated.resize(30);
  for (auto frame : {other_protocol, fragment, longer_than_the_frame, short_header, truncated,
                     std::vector<std::byte>()}) {
    const auto before = frame;
    EXPECT_FALSE(complete_checksum(frame));
    EXPECT_EQ(frame, before);
  }
}

// The sum of the pseudo header, 141f above, is what Linux leaves for a device (CHECKSUM_PARTIAL).
TEST(Checksum, ThatIsLeftIsThePseudoHeaders) {
  auto frame = udp_frame();
  EXPECT_FALSE(checksum_is_left(frame));
  frame[40] = std::byte{0x14};
  frame[41] = std::byte{0x1f};
  EXPECT_TRUE(checksum_is_left(frame));
  ASSERT_TRUE(complete_checksum(frame));
  EXPECT_FALSE(checksum_is_left(frame));
  EXPECT_FALSE(checksum_is_left(std::span(frame).first(38)));
}

}  // namespace
}  // namespace tiercast::vswitch
