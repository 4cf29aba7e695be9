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

// Layers of a session, which the highest group is the highest of.
class LayeredPort : public FairPort {
 protected:
  LayeredPort() { set({.rate_bps = 1e6, .queue_packets = 20}); }
  void set(PortConfig config) {
    config.fair_queueing = config.layered = true;
    EXPECT_OK(bench.sw.set_port(2, config, bench.now));
  }
  static Flow layer(unsigned rank, std::uint8_t source = 2) {
    return {.source = {10, 0, 0, source},
            .destination = {239, 192, 0, static_cast<std::uint8_t>(8 + rank)}};
  }
  // The last octets of the destinations of what has left, in order.
  std::vector<unsigned> destinations() const {
    std::vector<unsigned> seen;
    for (const auto& one : bench.out.sent) {
      seen.push_back(static_cast<unsigned>(number_at(one.frame, 33, 1)));
    }
    return seen;
  }
  std::map<unsigned, int> count() const {
    std::map<unsigned, int> counts;
    for (const unsigned destination : destinations()) ++counts[destination];
    return counts;
  }
};

TEST_F(LayeredPort, PacketsLeaveInTheOrderOfTheirArrival) {
  std::vector<unsigned> arrived;
  for (const unsigned rank : {2, 0, 1, 1, 0, 2, 3, 0, 2, 1}) {
    send(layer(rank), 1000, 1);
    arrived.push_back(8 + rank);
  }
  bench.finish();
  EXPECT_EQ(destinations(), arrived);
}

TEST_F(LayeredPort, TheOldestPacketOfTheHighestLayerGivesWayToALowerOne) {
  set({.rate_bps = 1e6, .queue_packets = 4});
  for (const unsigned rank : {0, 1, 2, 2, 1}) send(layer(rank), 1000, 1);  // the first is served
  send(layer(0), 1000, 1);  // for the first of rank 2
  send(layer(1), 1000, 1);  // for the other
  send(layer(1), 1000, 1);  // of the highest layer itself
  send(layer(2), 1000, 1);
  bench.finish();
  EXPECT_EQ(destinations(), (std::vector<unsigned>{8, 9, 9, 8, 9}));
  const PortStats stats = bench.sw.stats(2);
  EXPECT_EQ(stats.dropped_packets, 4u);
  EXPECT_EQ(stats.dropped_bytes, 4000u);
  EXPECT_EQ(stats.enqueued_packets, 5u);
  EXPECT_EQ(stats.max_queue_packets, 4u);
  EXPECT_EQ(stats.queue_packets, 0u);
  EXPECT_EQ(stats.queue_bytes, 0u);
}

TEST_F(LayeredPort, AQueueOfOnePacketIsEmptyForAMoment) {
  set({.rate_bps = 1e6, .queue_packets = 1});
  send({.source_port = 7}, 1000, 1);  // is served
  for (const unsigned rank : {3, 2, 1}) send(layer(rank), 1000, 1);
  send({.source_port = 9}, 1000, 1);
  send(layer(0), 1000, 1);
  bench.finish();
  EXPECT_EQ(count(), (std::map<unsigned, int>{{8, 1}, {2, 2}}));
  send(layer(5), 1000, 2);
  bench.finish();
  EXPECT_EQ(count().at(13), 2);
}

TEST_F(LayeredPort, LimitsOfBytesCountToo) {
  set({.rate_bps = 1e6, .queue_bytes = 1000});
  send({.source_port = 7}, 100, 1);  // is served
  send(layer(2), 300, 2);
  send(layer(1), 300, 1);
  send(layer(0), 700, 1);   // for both of rank 2
  send(layer(0), 1100, 1);  // more than the queue holds
  bench.finish();
  EXPECT_EQ(count(), (std::map<unsigned, int>{{2, 1}, {8, 1}, {9, 1}}));
}

TEST_F(LayeredPort, NothingGivesWayBetweenFlowsOrToWhatIsNotMulticast) {
  set({.rate_bps = 1e6, .queue_packets = 2});
  send({.source_port = 7}, 1000, 4);  // one served, two wait
  send(layer(3), 1000, 3);
  send(layer(0, 4), 1000, 3);  // another source's
  bench.finish();
  EXPECT_EQ(count(), (std::map<unsigned, int>{{2, 3}, {8, 2}, {11, 2}}));
}

TEST_F(LayeredPort, ManyGroupsAreNoHarm) {
  set({.rate_bps = 1e6, .queue_packets = 100});
  for (unsigned rank = 0; rank < 60; ++rank) send(layer(rank), 1000, 2);
  bench.finish();
  const auto counts = count();
  int left = 0;
  for (const auto& [destination, packets] : counts) left += packets;
  EXPECT_EQ(left, 101);
  // The order of the groups: what is beyond the places for layers is not replaced either.
  EXPECT_EQ(counts.at(8), 2);
}

TEST_F(LayeredPort, WhoSubscribesToMoreThanTheShareLosesTheHighestLayers) {
  // Five layers of 250 kbit/s and a flow that takes all it can: 500 kbit/s are the first two.
  for (int step = 0; step < 2500; ++step) {
    bench.now = step * 4'000'000LL;
    bench.sw.advance(bench.now);
    send({.source_port = 1}, 1250, 1);
    if (step % 10 == 0) {
      for (unsigned rank = 0; rank < 5; ++rank) send(layer(rank), 1250, 1);
    }
  }
  bench.finish();
  const auto counts = count();
  EXPECT_EQ(counts.at(8), 250);
  EXPECT_EQ(counts.at(9), 250);
  int higher = 0;
  for (const unsigned other : {10, 11, 12}) higher += counts.contains(other) ? counts.at(other) : 0;
  EXPECT_LE(higher, 25);  // what waits at the end is behind the other flow's packets
  EXPECT_NEAR(counts.at(2), 500, 25);
}

TEST_F(LayeredPort, NeedsQueuesOfFlows) {
  EXPECT_THAT(bench.sw.set_port(2, {.rate_bps = 1e6, .layered = true}, bench.now).message(),
              testing::HasSubstr("layered without fair queueing"));
}

}  // namespace
}  // namespace tiercast::engine
