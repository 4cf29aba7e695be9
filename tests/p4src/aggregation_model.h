// SIM feedback for tests: builds and reads messages by their layout in docs/wire-format.md.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/p4src/packet.h"

namespace tiercast::p4test {

struct Record {
  std::uint32_t rank = 0;
  std::uint32_t reports = 1;
  std::uint32_t congested = 0;
  std::uint32_t min_cum_rate = 0;  // bytes/s
  std::uint32_t max_cum_rate = 0;
  std::uint32_t receivers = 1;
  bool operator==(const Record&) const = default;
};

inline void PrintTo(const Record& r, std::ostream* out) {
  *out << "{rank " << r.rank << ", reports " << r.reports << ", congested " << r.congested
       << ", min " << r.min_cum_rate << ", max " << r.max_cum_rate << ", receivers " << r.receivers
       << "}";
}

struct Feedback {
  std::uint32_t session = 1;
  std::uint32_t source = 0;
  std::uint32_t fb_req = 0;
  std::uint32_t hold_us = 0;
  std::uint32_t subtree_rtt_us = 0;
  std::vector<Record> records;
};

inline void append(Frame& out, std::uint64_t value, unsigned bytes) {
  while (bytes-- > 0) out.push_back(static_cast<std::byte>(value >> (8 * bytes)));
}

inline Frame message(const Feedback& f) {
  Frame out;
  append(out, 0x01020100, 4);  // version, type, scheme, flags
  append(out, 28 + 24 * f.records.size(), 2);
  append(out, f.session, 2);
  append(out, f.source, 4);
  append(out, f.fb_req, 4);
  append(out, f.hold_us, 4);
  append(out, f.subtree_rtt_us, 4);
  append(out, f.records.size(), 1);
  append(out, 0, 3);
  for (const Record& r : f.records) {
    append(out, r.rank, 1);
    append(out, 0, 3);
    for (std::uint32_t v : {r.reports, r.congested, r.min_cum_rate, r.max_cum_rate, r.receivers}) {
      append(out, v, 4);
    }
  }
  return out;
}

// From a child at 10.0.9.<source> to the sender at 10.0.0.2.
inline Packet feedback_packet(const Feedback& f) {
  Packet packet;
  packet.src_mac = 0x020000000900 + (f.source & 0xff);
  packet.src = address("10.0.9.0") + (f.source & 0xff);
  packet.dst = address("10.0.0.2");
  packet.identification = 0xabcd;
  packet.payload = udp(5501, message(f));
  return packet;
}

inline std::uint64_t read(const Frame& frame, std::size_t offset, unsigned bytes) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) {
    value = value << 8 | static_cast<unsigned char>(frame.at(offset + i));
  }
  return value;
}

// Checks everything that the layout fixes. The frame must end with the message.
inline Feedback read_feedback(const Frame& frame) {
  constexpr std::size_t kUdpAt = kEthernetBytes + kIpv4Bytes, kMessage = kUdpAt + 8;
  Feedback f;
  const std::uint64_t count = read(frame, kMessage + 24, 1);
  const std::uint64_t bytes = 28 + 24 * count;
  EXPECT_EQ(frame.size(), kMessage + bytes);
  EXPECT_EQ(read(frame, kEthernetBytes + 2, 2), kIpv4Bytes + 8 + bytes) << "IPv4 total length";
  EXPECT_EQ(read(frame, kUdpAt + 2, 2), 5501u);
  EXPECT_EQ(read(frame, kUdpAt + 4, 2), 8 + bytes) << "UDP length";
  EXPECT_EQ(read(frame, kMessage, 4), 0x01020100u);
  EXPECT_EQ(read(frame, kMessage + 4, 2), bytes) << "header_length";
  EXPECT_EQ(read(frame, kMessage + 25, 3), 0u);
  EXPECT_TRUE(checksum_right(frame));
  f.session = static_cast<std::uint32_t>(read(frame, kMessage + 6, 2));
  const auto word = [&](std::size_t offset) {
    return static_cast<std::uint32_t>(read(frame, offset, 4));
  };
  f.source = word(kMessage + 8);
  f.fb_req = word(kMessage + 12);
  f.hold_us = word(kMessage + 16);
  f.subtree_rtt_us = word(kMessage + 20);
  for (std::size_t at = kMessage + 28; at + 24 <= frame.size(); at += 24) {
    EXPECT_EQ(read(frame, at + 1, 3), 0u);
    f.records.push_back({static_cast<std::uint32_t>(read(frame, at, 1)), word(at + 4), word(at + 8),
                         word(at + 12), word(at + 16), word(at + 20)});
  }
  return f;
}

}  // namespace tiercast::p4test
