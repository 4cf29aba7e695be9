// Deficit round robin: flows share a link by bytes, whichever sends more (fair_queue.h).
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

#include "dataplane/engine/queues/fair_queue.h"
#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {
namespace {

struct Flow {
  std::uint8_t protocol = 17;
  std::array<std::uint8_t, 4> source = {10, 0, 0, 2};
  std::array<std::uint8_t, 4> destination = {10, 0, 7, 2};
  std::uint16_t source_port = 5500;
  std::uint16_t destination_port = 5500;
};

// Also a valid frame of probe.p4 for port 2, whose numbers are where the headers are.
Frame frame_of(const Flow& flow, std::size_t bytes = 100) {
  Frame frame(bytes);
  const auto set = [&](std::size_t at, unsigned value) {
    frame[at] = static_cast<std::byte>(value);
  };
  set(0, 2);
  set(12, 8);
  set(14, 0x45);
  set(23, flow.protocol);
  for (std::size_t i = 0; i < 4; ++i) {
    set(26 + i, flow.source[i]);
    set(30 + i, flow.destination[i]);
  }
  set(34, flow.source_port >> 8);
  set(35, flow.source_port & 255);
  set(36, flow.destination_port >> 8);
  set(37, flow.destination_port & 255);
  return frame;
}

TEST(FairQueue, AFlowIsSourceDestinationProtocolAndPorts) {
  const auto flow = [](const Flow& f) { return FairQueue::flow_of(frame_of(f)); };
  const std::uint32_t one = flow({});
  EXPECT_EQ(one, flow({}));
  EXPECT_EQ(one, FairQueue::flow_of(frame_of({}, 1400)));
  EXPECT_NE(one, flow({.source = {10, 0, 0, 4}}));
  EXPECT_NE(one, flow({.destination = {10, 0, 7, 4}}));
  EXPECT_NE(one, flow({.protocol = 6}));
  EXPECT_NE(one, flow({.source_port = 5501}));
  EXPECT_NE(one, flow({.destination_port = 5501}));
  // The layers of a session have groups of their own.
  EXPECT_EQ(flow({.destination = {239, 192, 0, 8}}), flow({.destination = {239, 192, 0, 9}}));
  // Frames that are not IPv4, or are too short to tell, form one flow. Nothing is read beyond the
  // frame.
  Frame other = frame_of({});
  other[12] = std::byte{0x86};
  EXPECT_EQ(FairQueue::flow_of(other), 0u);
  for (std::size_t length = 0; length < 40; ++length) {
    Frame cut = frame_of({});
    cut.resize(length);
    EXPECT_LT(FairQueue::flow_of(cut), FairQueue::kFlows);
  }
  Frame long_options = frame_of({});
  long_options[14] = std::byte{0x4f};
  long_options.resize(60);
  EXPECT_LT(FairQueue::flow_of(long_options), FairQueue::kFlows);
}

class FairPort : public ::testing::Test {
 protected:
  FairPort() {
    EXPECT_OK(bench.sw.set_port(2, {.rate_bps = 1e6, .queue_packets = 20, .fair_queueing = true}));
  }
  void send(const Flow& flow, std::size_t bytes, int count) {
    for (int i = 0; i < count; ++i) bench.receive(1, frame_of(flow, bytes));
  }
  // Bytes that have left so far, by source port.
  std::map<unsigned, std::size_t> sent() const {
    std::map<unsigned, std::size_t> bytes;
    for (const auto& one : bench.out.sent)
      bytes[static_cast<unsigned>(number_at(one.frame, 34, 2))] += one.frame.size();
    return bytes;
  }
  Bench bench{"probe"};
};

TEST_F(FairPort, FlowsThatWaitShareTheLinkByBytes) {
  // Every 10 ms, two flows each send what would fill the link, one in large packets and one in
  // small ones. A third flow sends little.
  for (int step = 0; step < 500; ++step) {
    bench.now = step * 10'000'000LL;
    bench.sw.advance(bench.now);
    send({.source_port = 1}, 1250, 1);
    send({.source_port = 2}, 250, 5);
    if (step % 10 == 0) send({.source_port = 3}, 500, 1);
  }
  bench.sw.advance(bench.now);
  const auto bytes = sent();
  EXPECT_NEAR(static_cast<double>(bytes.at(1)), static_cast<double>(bytes.at(2)), 4000);
  EXPECT_NEAR(static_cast<double>(bytes.at(3)), 25000, 1000);  // all of it
  EXPECT_NEAR(static_cast<double>(bytes.at(1) + bytes.at(2) + bytes.at(3)), 5e6 / 8 - 1250, 4000);
}

TEST_F(FairPort, LimitsAreEachFlows) {
  send({.source_port = 1}, 1000, 50);
  send({.source_port = 2}, 1000, 5);
  bench.finish();
  EXPECT_EQ(sent().at(1), 21'000u);  // one in service, and 20 waiting
  EXPECT_EQ(sent().at(2), 5'000u);
}

TEST_F(FairPort, ANewSchedulingKeepsWhatWaits) {
  send({.source_port = 1}, 1000, 6);
  send({.source_port = 2}, 1000, 6);
  for (const bool fair : {false, true, false}) {
    EXPECT_OK(bench.sw.set_port(2, {.rate_bps = 1e6, .fair_queueing = fair}, bench.now));
  }
  bench.finish();
  EXPECT_EQ(sent().at(1), 6000u);
  EXPECT_EQ(sent().at(2), 6000u);
  send({.source_port = 1}, 1000, 3);
  EXPECT_OK(bench.sw.set_port(2, {.rate_bps = 1e6, .fair_queueing = true}, bench.now));
  EXPECT_OK(bench.sw.remove_port(2));
}

}  // namespace
}  // namespace tiercast::engine
