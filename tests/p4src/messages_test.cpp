// The test vectors of the wire format through the program, and malformed frames.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tests/p4src/bench.h"

namespace tiercast::p4test {
namespace {

const nlohmann::json& vectors() {
  static const auto document = nlohmann::json::parse(std::ifstream(TIERCAST_WIRE_VECTORS));
  return document;
}

Frame bytes_of(const std::string& hex) {
  Frame out;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

class Messages : public SwitchTest {};

// A switch does not judge messages: right or wrong, a message arrives as it was sent.
TEST_F(Messages, EveryVectorPassesUnchanged) {
  bench.host("10.0.1.2", 2, 0x020000000202);
  for (const auto& vector : vectors()["vectors"]) {
    SCOPED_TRACE(vector["name"].get<std::string>());
    for (const std::uint16_t port : std::to_array<std::uint16_t>({5500, 5501})) {
      Packet packet;
      packet.payload = udp(port, bytes_of(vector["hex"]));
      bench.clear();
      bench.receive(1, packet);
      bench.finish();
      ASSERT_EQ(bench.ports_used(), std::vector<std::uint32_t>{2});
      EXPECT_EQ(ip_payload(bench.sent()[0].frame), packet.payload);
    }
  }
}

// Session and rank are read from the address, whatever the message says.
TEST_F(Messages, EveryGroupAddressIsReadAsSessionAndRank) {
  bench.limit(2, 8e6, 0);
  bench.marking(2, 0);
  std::uint32_t mgid = 1;
  for (const auto& one : vectors()["groups"]) {
    SCOPED_TRACE(one["address"].get<std::string>());
    const std::uint32_t session = one["session"], rank = one["rank"];
    ASSERT_EQ(group(session, rank), address(one["address"].get<std::string>()));
    bench.subscribe(group(session, rank), mgid++, {2});
    for (const bool top : {true, false}) {
      bench.top_group(2, session, top ? rank : rank ^ 1);
      bench.clear();
      for (int i = 0; i < 3; ++i) bench.receive(1, layer_packet(session, rank));
      bench.finish();
      ASSERT_EQ(bench.sent().size(), 3u);
      EXPECT_EQ(ecn(bench.sent()[1].frame), top ? kCe : kEct0);
    }
  }
}

class Malformed : public SwitchTest {
 protected:
  Malformed() {
    bench.limit(2, 8e6, 50);
    bench.marking(2, 0);
    bench.prefix("0.0.0.0", 0, 2, 0x020000000202);
    bench.subscribe(group(1, 0), 1, {2, 3});
    bench.top_group(2, 1, 0);
    for (const auto& vector : vectors()["vectors"]) {
      Packet packet = layer_packet(1, 0);
      packet.payload = udp(5500, bytes_of(vector["hex"]));
      frames_.push_back(packet.bytes());
    }
    frames_.push_back(igmp_report(group(1, 0)).bytes());
    frames_.push_back(layer_packet(1, 0).bytes());
    Packet with_options = layer_packet(1, 0);
    with_options.options.assign(40, std::byte{0x01});
    frames_.push_back(with_options.bytes());
  }

  // At most two copies leave, and a frame's length changes only by the 2 bytes of packet_in and
  // packet_out.
  void expect_survives(std::uint32_t port, const Frame& frame) {
    bench.clear();
    bench.receive(port, frame);
    bench.finish();
    EXPECT_LE(bench.sent().size() + bench.punted().size(), 2u);
    for (const Sent& sent : bench.sent()) {
      EXPECT_EQ(sent.frame.size(), frame.size() - (port == kCpuPort ? 2 : 0));
    }
    for (const Frame& punted : bench.punted()) {
      EXPECT_EQ(punted.size(), frame.size() + (port == kCpuPort ? 0 : 2));
    }
  }

  std::vector<Frame> frames_;
};

TEST_F(Malformed, FramesCutAtEveryByte) {
  for (const Frame& frame : frames_) {
    const std::size_t longest = std::min<std::size_t>(frame.size(), 120);
    for (std::size_t size = 0; size <= longest; ++size) {
      const Frame cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
      for (std::uint32_t port : {1u, kCpuPort}) expect_survives(port, cut);
      if (size < frame.size()) {
        bench.clear();
        bench.receive(1, cut);
        bench.finish();
        EXPECT_TRUE(bench.sent().empty()) << size << " bytes, fewer than the packet claims";
      }
    }
  }
}

TEST_F(Malformed, RandomBytes) {
  constexpr unsigned kSeed = 31;
  std::mt19937 random(kSeed);
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  for (int i = 0; i < 5000; ++i) {
    Frame frame(random() % 200);
    for (std::byte& b : frame) b = static_cast<std::byte>(random());
    if (frame.size() > 14 && i % 2 == 0) {
      frame[12] = std::byte{0x08};
      frame[13] = std::byte{0x00};
    }
    expect_survives(i % 5 == 0 ? kCpuPort : 1 + random() % 4, frame);
  }
}

TEST_F(Malformed, FramesWithSomeBytesChanged) {
  constexpr unsigned kSeed = 32;
  std::mt19937 random(kSeed);
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  for (int i = 0; i < 5000; ++i) {
    Frame frame = frames_[random() % frames_.size()];
    for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
      frame[random() % std::min<std::size_t>(frame.size(), 80)] = static_cast<std::byte>(random());
    }
    expect_survives(i % 5 == 0 ? kCpuPort : 1 + random() % 4, frame);
  }
}

TEST_F(Malformed, AfterAllOfThatTheSwitchStillWorks) {
  for (const Frame& frame : frames_) expect_survives(1, frame);
  bench.clear();
  bench.receive(1, layer_packet(1, 0));
  bench.finish();
  EXPECT_EQ(bench.ports_used(), (std::vector<std::uint32_t>{2, 3}));
}

}  // namespace
}  // namespace tiercast::p4test
