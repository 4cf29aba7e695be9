#include "dataplane/sender/frames/frame_template.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/wire/bytes.h"
#include "protocols/wire/wire.h"
#include "tests/dataplane/sender/samples.h"

namespace tiercast::sender {
namespace {

using Bytes = std::vector<std::byte>;

wire::UdpFlow flow() {
  wire::UdpFlow flow;
  flow.source_mac = kOwn.mac;
  flow.source = kOwn.ip;
  flow.destination = wire::group_address(7, 3);
  flow.destination_mac = wire::multicast_mac(flow.destination);
  flow.source_port = flow.destination_port = wire::kDataPort;
  flow.ecn = wire::Ecn::kEct0;
  return flow;
}

Bytes random_bytes(std::size_t size, std::uint64_t seed) {
  Rng rng(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.next());
  return bytes;
}

// Every size from the smallest to 9000 bytes, compared byte for byte with the plain writer.
TEST(SenderFrameTemplate, WritesWhatThePlainWriterWrites) {
  const Bytes payload = random_bytes(9000, 1);
  for (std::uint32_t ip_bytes = 28; ip_bytes <= 9000; ip_bytes += ip_bytes < 200 ? 1 : 37) {
    const FrameTemplate headers(flow(), {}, ip_bytes, {});
    Bytes expected(14 + ip_bytes), actual(14 + ip_bytes);
    ASSERT_EQ(headers.frame_bytes(), expected.size());
    ASSERT_EQ(headers.header_bytes(), 42u);
    for (Bytes* frame : {&expected, &actual}) {
      std::copy_n(payload.begin(), ip_bytes - 28, frame->begin() + 42);
    }
    const auto id = static_cast<std::uint16_t>(ip_bytes * 7919);
    wire::write_udp_headers(flow(), id, expected);
    headers.write(actual.data(), id, wire::sum_words(actual.data() + 42, ip_bytes - 28));
    ASSERT_EQ(actual, expected) << ip_bytes;
  }
}

TEST(SenderFrameTemplate, EveryNumberHasItsChecksum) {
  const FrameTemplate headers(flow(), {}, 60, {});
  Bytes frame(74);
  for (unsigned id = 0; id <= 0xffff; ++id) {
    headers.write(frame.data(), static_cast<std::uint16_t>(id), 0);
    ASSERT_EQ(wire::internet_checksum(std::span(frame).subspan(14, 20)), 0) << id;
  }
}

// A UDP checksum of zero is sent as 0xffff, because zero would mean that there is none.
TEST(SenderFrameTemplate, AChecksumOfZeroIsSentAsAllOnes) {
  const FrameTemplate headers(flow(), {}, 30, {});
  Bytes frame(46);  // headers need packets of at least 28 bytes; 2 of these are payload
  bool seen = false;
  for (unsigned value = 0; value <= 0xffff; ++value) {
    wire::put16(frame, 42, static_cast<std::uint16_t>(value));
    headers.write(frame.data(), 0, wire::sum_words(frame.data() + 42, 2));
    seen |= wire::get16(frame, 40) == 0xffff;
    ASSERT_NE(wire::get16(frame, 40), 0);
  }
  EXPECT_TRUE(seen);
}

TEST(SenderFrameTemplate, ATagStandsBehindTheAddresses) {
  const FrameTemplate headers(flow(), Vlan{100, 5}, 60, {});
  Bytes plain(74), tagged(78);
  ASSERT_EQ(headers.frame_bytes(), tagged.size());
  wire::write_udp_headers(flow(), 9, plain);
  headers.write(tagged.data(), 9, 0);
  EXPECT_EQ(wire::get16(tagged, 12), 0x8100);
  EXPECT_EQ(wire::get16(tagged, 14), 5u << 13 | 100u);
  tagged.erase(tagged.begin() + 12, tagged.begin() + 16);
  EXPECT_EQ(tagged, plain);
}

// The device adds the rest: the field holds the sum of the pseudo header, not inverted.
TEST(SenderFrameTemplate, WithOffloadTheSumOfThePseudoHeaderIsLeft) {
  const FrameTemplate headers(flow(), {}, 60, {.ipv4 = true, .udp = true});
  Bytes frame(74);
  headers.write(frame.data(), 1, 12345);
  EXPECT_EQ(wire::get16(frame, 24), 0);
  Bytes pseudo(frame.begin() + 26, frame.begin() + 34);
  for (const unsigned byte : {0u, 17u, 0u, 40u}) pseudo.push_back(std::byte(byte));
  const auto sum = static_cast<std::uint16_t>(~wire::internet_checksum(pseudo));
  EXPECT_EQ(wire::get16(frame, 40), sum);
}

}  // namespace
}  // namespace tiercast::sender
