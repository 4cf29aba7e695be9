#include "dataplane/streams/data_frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "dataplane/streams/test_frame.h"
#include "protocols/base/rng.h"
#include "protocols/wire/bytes.h"
#include "protocols/wire/wire.h"

namespace tiercast::streams {
namespace {

constexpr std::uint32_t kSource = 0x0a000002;
constexpr std::int64_t kNow = 5'000'123'456'789;  // its microseconds do not fit into 32 bits

std::vector<std::byte> frame_with(std::span<const std::byte> message, std::uint32_t group,
                                  std::uint16_t port, std::size_t size = 0) {
  std::vector<std::byte> frame(std::max(size, wire::kFrameHeaderBytes + message.size()));
  std::copy(message.begin(), message.end(), frame.begin() + wire::kFrameHeaderBytes);
  wire::UdpFlow flow;
  flow.destination_mac = wire::multicast_mac(group);
  flow.source = kSource;
  flow.destination = group;
  flow.source_port = flow.destination_port = port;
  flow.ecn = wire::Ecn::kEct0;
  wire::write_udp_headers(flow, 77, frame);
  return frame;
}

std::vector<std::byte> data(wire::SchemeId scheme, std::uint16_t header, std::uint32_t seq,
                            std::uint32_t time, std::uint16_t session = 3, std::uint8_t rank = 2) {
  std::vector<std::byte> message(header + 10u);
  wire::write_common(
      {.type = wire::Type::kData, .scheme = scheme, .header_length = header, .session = session},
      message);
  wire::put32(message, 12, seq);
  if (header >= 20) wire::put32(message, 16, time);
  return frame_with(message, wire::group_address(session, rank), wire::kDataPort);
}

TEST(DataFrame, ReadsNumberAndTimeOfEachScheme) {
  const auto sent = static_cast<std::uint32_t>(kNow / 1000 - 250);
  struct Case {
    wire::SchemeId scheme;
    std::uint16_t header;
    bool timed;
    bool repeats;
  };
  for (const Case& one : {Case{wire::SchemeId::kSim, 32, true, false},
                          {wire::SchemeId::kErmcc, 36, false, false},
                          {wire::SchemeId::kRla, 32, true, true},
                          {wire::SchemeId::kMlda, 20, true, false},
                          {wire::SchemeId::kMdpcc, 28, false, true},
                          {wire::SchemeId::kTfmcc, 40, true, false},
                          {wire::SchemeId::kPgmcc, 24, true, false},
                          {wire::SchemeId::kRlm, 16, false, false},
                          {wire::SchemeId::kRlc, 16, false, false},
                          {wire::SchemeId::kPlm, 16, false, false}}) {
    DataFrame out;
    const auto frame = data(one.scheme, one.header, 4'000'000'000u, sent);
    ASSERT_EQ(read_data_frame(frame, kNow, out), Reading::kData);
    EXPECT_EQ(out.seq, 4'000'000'000u);
    EXPECT_EQ(out.source, kSource);
    EXPECT_EQ(out.group, wire::group_address(3, 2));
    EXPECT_EQ(out.ip_bytes, frame.size() - 14);
    EXPECT_EQ(out.ecn, wire::Ecn::kEct0);
    EXPECT_EQ(out.stamped, one.timed);
    EXPECT_EQ(out.repeats, one.repeats);
    EXPECT_EQ(out.latency_ns, one.timed ? 250'789 : 0);
  }
}

TEST(DataFrame, TheSmallestEthernetFrameCarriesATest) {
  std::vector<std::byte> message(TestMessage::kBytes);
  write_test_message({.trial = 9, .seq = 77, .sent_ns = kNow - 321}, message);
  const auto frame = frame_with(message, 0x0a000003, TestMessage::kPort);
  ASSERT_EQ(frame.size(), 60u);  // 64 with FCS
  DataFrame out;
  ASSERT_EQ(read_data_frame(frame, kNow, out), Reading::kTest);
  EXPECT_EQ(out.seq, 77u);
  EXPECT_EQ(out.trial, 9u);
  EXPECT_EQ(out.latency_ns, 321);
}

TEST(DataFrame, ATemplatesFramesAreValid) {
  Rng rng(3);
  for (const std::size_t bytes : {60u, 61u, 124u, 1514u, 9014u}) {
    const TestFrame frame(kSource, {}, bytes, 77);
    std::vector<std::byte> out(bytes);
    for (int i = 0; i < 2000; ++i) {
      const auto group = wire::kGroupBase + static_cast<std::uint32_t>(rng.below(1u << 18));
      const auto seq = static_cast<std::uint32_t>(rng.next());
      const auto sent = static_cast<std::int64_t>(rng.next() >> 1);
      frame.write(out.data(), group, wire::multicast_mac(group), seq, sent);
      wire::UdpPacket packet;
      ASSERT_EQ(wire::parse_udp_frame(out, packet), wire::FrameError::kOk);
      ASSERT_EQ(packet.payload.size(), bytes - wire::kFrameHeaderBytes);
      DataFrame read;
      ASSERT_EQ(read_data_frame(out, sent + 5, read), Reading::kTest);
      ASSERT_EQ(read.group, group);
      ASSERT_EQ(read.seq, seq);
      ASSERT_EQ(read.trial, 77);
      ASSERT_EQ(read.latency_ns, 5);
    }
  }
}

TEST(DataFrame, TellsDataFromAllElse) {
  DataFrame out;
  auto control = data(wire::SchemeId::kSim, 32, 1, 1);
  control[43] = std::byte{3};
  control[40] = control[41] = std::byte{0};  // no checksum
  EXPECT_EQ(read_data_frame(control, kNow, out), Reading::kControl);
  auto version = data(wire::SchemeId::kSim, 32, 1, 1);
  version[42] = std::byte{2};
  EXPECT_EQ(read_data_frame(version, kNow, out), Reading::kMalformed);  // checksum
  version[40] = version[41] = std::byte{0};
  EXPECT_EQ(read_data_frame(version, kNow, out), Reading::kMalformed);  // version
  EXPECT_EQ(read_data_frame(data(wire::SchemeId::kSim, 19, 1, 1), kNow, out), Reading::kMalformed);
  const std::vector<std::byte> arp(60, std::byte{8});
  EXPECT_EQ(read_data_frame(arp, kNow, out), Reading::kOther);
  const auto other = frame_with(std::vector<std::byte>(20), wire::group_address(1, 1), 4000);
  EXPECT_EQ(read_data_frame(other, kNow, out), Reading::kOther);
  // The group of another session.
  std::vector<std::byte> message(40);
  wire::write_common({.type = wire::Type::kData,
                      .scheme = wire::SchemeId::kRlm,
                      .header_length = 16,
                      .session = 5},
                     message);
  const auto wrong = frame_with(message, wire::group_address(6, 0), wire::kDataPort);
  EXPECT_EQ(read_data_frame(wrong, kNow, out), Reading::kMalformed);
}

// The quick parser accepts and refuses as the strict one does.
TEST(DataFrame, AgreesWithTheParserOfFramesOnBrokenOnes) {
  Rng rng(11);
  const auto whole = data(wire::SchemeId::kSim, 32, 1, 1);
  for (int i = 0; i < 200'000; ++i) {
    auto frame = whole;
    for (std::uint64_t flips = 1 + rng.below(3); flips > 0; --flips) {
      frame[rng.below(frame.size())] ^= static_cast<std::byte>(1u << rng.below(8));
    }
    frame.resize(rng.below(8) == 0 ? rng.below(frame.size() + 1) : frame.size());
    wire::UdpPacket packet;
    const auto error = wire::parse_udp_frame(frame, packet);
    DataFrame out;
    const Reading reading = read_data_frame(frame, kNow, out);
    if (error == wire::FrameError::kNotIpv4 || error == wire::FrameError::kNotUdp ||
        error == wire::FrameError::kFragment) {
      ASSERT_EQ(reading, Reading::kOther) << "try " << i;
    } else if (error != wire::FrameError::kOk) {
      ASSERT_EQ(reading, Reading::kMalformed) << "try " << i << " " << wire::name(error);
    }
  }
}

}  // namespace
}  // namespace tiercast::streams
