// Which packets are sampled, and what the rows say that they are.
#include "dataplane/trace/sampled_packet.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/p4src/packet.h"

namespace tiercast::trace {
namespace {

using p4test::Frame;
using p4test::Packet;

Frame numbered(std::uint32_t sequence) {
  Packet packet = p4test::layer_packet(7, 2);
  packet.identification = static_cast<std::uint16_t>(sequence);
  for (int i = 0; i < 4; ++i) {
    packet.payload[20 + static_cast<std::size_t>(i)] =
        static_cast<std::byte>(sequence >> (24 - 8 * i));
  }
  return packet.bytes();
}

TEST(SampledPacket, HasSessionLayerAndSequence) {
  const SampledPacket packet = describe(numbered(0x01020304));
  EXPECT_EQ(packet.session, 7);
  EXPECT_EQ(packet.layer, 2);
  EXPECT_EQ(packet.sequence, 0x01020304);
  EXPECT_EQ(packet.ip_bytes, 1000u);
  EXPECT_TRUE(packet.flow.ends_with(">239.192.0.58:5500/udp")) << packet.flow;
}

TEST(SampledPacket, OfOtherFlowsHasNoSession) {
  Packet tcp;
  tcp.protocol = p4test::kTcp;
  tcp.payload = Frame(20);
  tcp.payload[7] = std::byte{9};
  const SampledPacket packet = describe(tcp.bytes());
  EXPECT_EQ(packet.session, -1);
  EXPECT_EQ(packet.sequence, 9);
  EXPECT_EQ(packet.flow, "10.0.0.2:0>10.0.1.2:0/tcp");
  EXPECT_EQ(describe(Frame(20)).flow, "");
}

TEST(SampledPacket, TruncatedFramesAreReadNoFurther) {
  const Frame whole = numbered(5);
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const Frame part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    describe(part);
    sampling_hash(part);
  }
}

TEST(Sampling, DoesNotSeeWhatSwitchesChange) {
  Packet packet = p4test::layer_packet(1, 0);
  const std::uint64_t before = sampling_hash(packet.bytes());
  packet.ttl = 3;
  packet.ecn = p4test::kCe;
  packet.dst_mac = packet.src_mac = 1;
  EXPECT_EQ(sampling_hash(packet.bytes()), before);
  packet.identification = 1;
  EXPECT_NE(sampling_hash(packet.bytes()), before);
}

TEST(Sampling, TakesTheShareThatWasAskedFor) {
  constexpr int kPackets = 100'000;
  for (const double share : {0.5, 0.1, 0.01}) {
    int sampled = 0;
    for (std::uint32_t i = 0; i < kPackets; ++i) {
      sampled += sampling_hash(numbered(i)) <= sampling_limit(share);
    }
    const double deviation = std::sqrt(share * (1 - share) * kPackets);
    EXPECT_NEAR(sampled, share * kPackets, 4 * deviation) << share;
  }
  EXPECT_LE(sampling_hash(Frame(10)), sampling_limit(1));
  EXPECT_GT(sampling_hash(Frame(10)), sampling_limit(0.999));
}

}  // namespace
}  // namespace tiercast::trace
