// Once warm, packets cause no allocation: operator new is counted while packets pass.
#include <array>

#include "tests/dataplane/engine/testing.h"
#include "tests/support/allocations.h"

namespace tiercast::engine {
namespace {

class Silent : public Output {
 public:
  void transmit(std::uint32_t, std::span<const std::byte>, std::int64_t) override { ++frames; }
  void packet_in(std::span<const std::byte>) override { ++frames; }
  std::size_t frames = 0;
};

void expect_none_on_the_way(const WireConfig& wire) {
  Silent out;
  Switch sw(load_program("router"), {}, out);
  for (std::uint32_t port = 1; port <= 4; ++port) {
    EXPECT_OK(sw.set_port(port, {.rate_bps = 6e6,
                                 .queue_packets = 50,
                                 .delay_ns = 5'000'000,
                                 .rx_delay_ns = 1000,
                                 .wire = wire,
                                 .rx_wire = wire}));
  }
  EXPECT_OK(sw.insert_multicast_group(7, {{2, 1}, {3, 1}, {4, 1}}));
  EXPECT_OK(sw.insert_clone_session(3, {{{4, 0}}, 64}));
  EXPECT_OK(sw.insert_entry(
      "MyIngress.host",
      {{FieldMatch::exact(big_endian(1, 4))}, 0, {"MyIngress.replicate", {big_endian(7, 2)}}, {}}));
  EXPECT_OK(sw.insert_entry("MyIngress.mirror", {{FieldMatch::exact(big_endian(1, 2)),
                                                  FieldMatch::exact(big_endian(17, 1))},
                                                 0,
                                                 {"MyIngress.copy_to", {big_endian(3, 4)}},
                                                 {}}));
  EXPECT_OK(sw.insert_entry("MyIngress.route",
                            {{FieldMatch::lpm(big_endian(0x0b000000, 4), 8)},
                             0,
                             {"MyIngress.forward", {big_endian(2, 2), big_endian(1, 6)}},
                             {}}));
  std::vector<Frame> frames;
  for (const std::uint64_t destination : {0x1ull, 0x0b000001ull, 0x0c000001ull}) {
    Frame frame = FrameBuilder()
                      .put(1, 48)
                      .put(2, 48)
                      .put(0x0800, 16)
                      .put(0x4500, 16)
                      .put(986, 16)
                      .put(0, 32)
                      .put(64, 8)
                      .put(17, 8)
                      .put(0, 16)
                      .put(0x0a000001, 32)
                      .put(destination, 32)
                      .pad_to(1000)
                      .take();
    std::uint32_t sum = 0;
    for (std::size_t i = 14; i < 34; i += 2)
      sum += static_cast<std::uint32_t>(number_at(frame, i, 2));
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
    frame[24] = static_cast<std::byte>(sum >> 8);
    frame[25] = static_cast<std::byte>(sum & 0xff);
    frames.push_back(std::move(frame));
  }
  frames.push_back(FrameBuilder().put(1, 48).put(2, 48).put(0x0806, 16).pad_to(60).take());

  std::int64_t now = 0;
  const auto run = [&](int packets) {
    for (int i = 0; i < packets; ++i) {
      now += 300'000;  // more than the links carry, so queues fill and overflow
      sw.receive(1, frames[static_cast<std::size_t>(i) % frames.size()], now);
      if (i % 7 == 0) sw.advance(sw.next_event() == Switch::kNever ? now : now + 100);
    }
  };
  const CountAllocations counting;
  run(20000);  // until the pool holds the largest number of frames that ever wait at the same time
  const std::size_t before = allocations().count, sent = out.frames;
  run(20000);
  const std::size_t during = allocations().count - before;
  EXPECT_EQ(during, 0u);
  EXPECT_GT(out.frames, sent + 10000);
  EXPECT_GT(sw.stats(2).dropped_packets, 0u);
}

TEST(Allocation, NoneOnTheWayOfAPacket) { expect_none_on_the_way({}); }

TEST(Allocation, NoneOnAWireThatLosesAndDuplicates) {
  expect_none_on_the_way({.loss = {.to_bad = 0.01, .to_good = 0.2, .in_bad = 1},
                          .jitter_ns = 1'000'000,
                          .reorder = 0.1,
                          .reorder_delay_ns = 10'000'000,
                          .duplicate = 0.1});
}

TEST(Allocation, NoneForALabelThatIsKnown) {
  Silent out;
  const auto same = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  Switch sw(load_program("labels"), {.label = {"label", "label", same}}, out);
  EXPECT_OK(sw.set_port(1, {}));
  EXPECT_OK(sw.set_port(2, {.rate_bps = 6e6, .queue_packets = 50}));
  std::int64_t now = 0;
  const auto run = [&](unsigned packets) {
    for (unsigned i = 0; i < packets; ++i) {
      // labels.p4: label, change, port, group, clone, order.
      std::array<std::byte, 1000> frame{};
      frame[0] = static_cast<std::byte>(i % 200);
      frame[2] = std::byte{2};
      sw.receive(1, frame, now += 1'000'000);
    }
  };
  const CountAllocations counting;
  run(20000);
  const std::size_t before = allocations().count;
  run(20000);
  EXPECT_EQ(allocations().count - before, 0u);
  EXPECT_EQ(sw.label_counts(2).size(), 200u);
  EXPECT_GT(sw.stats(2).dropped_packets, 0u);
}

// New digests, known ones, and more than there is room for, with lists that are taken and
// acknowledged.
TEST(Allocation, NoneOnTheWayOfADigest) {
  struct Reader : Silent {
    bool digest(const DigestList& list) override {
      digests += list.size;
      return true;
    }
    std::size_t digests = 0;
  } out;
  Switch sw(load_program("digest"), {}, out);
  EXPECT_OK(sw.set_port(2, {}));
  for (std::uint32_t port = 10; port < 500; ++port) EXPECT_OK(sw.set_port(port, {}));
  const std::string name = sw.program().digests().at(0).name;
  EXPECT_OK(sw.configure_digest(name, DigestConfig{100, 1'000'000, 5'000'000}));
  std::array<Frame, 256> frames;
  for (unsigned value = 0; value < 256; ++value)
    frames[value] = FrameBuilder().put(value, 8).take();
  std::int64_t now = 0;
  const auto run = [&](std::uint32_t packets) {
    for (std::uint32_t i = 0; i < packets; ++i) {
      now += 100;
      sw.receive(10 + i / 256 % 490, frames[i % 256], now);
    }
  };
  const CountAllocations counting;
  run(200'000);
  const std::size_t before = allocations().count, seen = out.digests;
  run(200'000);
  EXPECT_EQ(allocations().count - before, 0u);
  EXPECT_GT(out.digests, seen + 10'000);
  EXPECT_GT(sw.switch_stats().dropped_digests, 0u);
}

}  // namespace
}  // namespace tiercast::engine
