// What became of packets. Each has one fate where it arrived, and one where its service began.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "tests/p4src/aggregation_model.h"
#include "tests/p4src/bench.h"

namespace tiercast::p4test {
namespace {

using IngressCounts = std::array<std::uint64_t, kIngressFates>;

constexpr std::uint32_t kFirstColumn = 512;  // of groups

// 10.0.0.2, the sender, is behind port 1; 10.0.1.2 is behind port 2. Session 1's two layers go to
// ports 2 to 4. Session 2 has columns but no subscribers.
class Fates : public SwitchTest {
 protected:
  Fates() {
    bench.host("10.0.0.2", kUp, 0x020000000002);
    bench.host("10.0.1.2", 2, 0x020000000202);
    for (std::uint32_t rank : {0u, 1u}) bench.subscribe(group(1, rank), 1 + rank, {2, 3, 4});
    for (std::uint32_t session : {1u, 2u}) {
      for (std::uint32_t rank = 0; rank < 8; ++rank) {
        bench.group_columns(group(session, rank), column(0, session, rank));
      }
    }
  }

  static std::uint32_t column(std::uint32_t port, std::uint32_t session, std::uint32_t rank) {
    return kFirstColumn + 5 * (8 * (session - 1) + rank) + port;
  }
  IngressCounts ingress(std::uint32_t port) const {
    IngressCounts counts;
    for (std::uint32_t fate = 0; fate < kIngressFates; ++fate) {
      counts[fate] = bench.ingress(port, static_cast<IngressFate>(fate));
    }
    return counts;
  }
  // The frame has this fate and no other, whatever happened to earlier ones.
  void expect_fate(std::uint32_t port, const Frame& frame, IngressFate fate) {
    IngressCounts expected = ingress(port);
    ++expected[static_cast<std::size_t>(fate)];
    bench.receive(port, frame);
    bench.finish();
    EXPECT_EQ(ingress(port), expected);
  }
  void expect_fate(std::uint32_t port, const Packet& packet, IngressFate fate) {
    expect_fate(port, packet.bytes(), fate);
  }
};

TEST_F(Fates, Forwarded) {
  expect_fate(kUp, Packet{}, IngressFate::kForwarded);
  expect_fate(kUp, layer_packet(1, 0), IngressFate::kForwarded);
  expect_fate(2, layer_packet(1, 0), IngressFate::kForwarded);  // to the other ports
}

TEST_F(Fates, Invalid) {
  Packet packet;
  packet.checksum = 1;
  expect_fate(kUp, packet, IngressFate::kInvalid);
  packet = {};
  packet.total_len = 1000;
  expect_fate(kUp, packet, IngressFate::kInvalid);
  packet = {};
  packet.ihl = 4;
  expect_fate(kUp, packet, IngressFate::kInvalid);
  packet = {};
  packet.version = 6;
  expect_fate(kUp, packet, IngressFate::kInvalid);
  packet = {};
  packet.ether_type = 0x86dd;
  expect_fate(kUp, packet, IngressFate::kInvalid);
  packet = {};
  packet.dst_mac = 0xffffffffffff;
  expect_fate(kUp, packet, IngressFate::kInvalid);
  expect_fate(kUp, Frame(10), IngressFate::kInvalid);
  expect_fate(kCpuPort, with_port(2, Frame(10)), IngressFate::kInvalid);
}

TEST_F(Fates, Expired) {
  for (Packet packet : {Packet{}, layer_packet(1, 0), layer_packet(2, 0)}) {
    packet.ttl = 1;
    expect_fate(kUp, packet, IngressFate::kExpired);
  }
}

TEST_F(Fates, NoGroup) {
  expect_fate(kUp, layer_packet(1, 2), IngressFate::kNoGroup);
  expect_fate(kUp, layer_packet(2, 0), IngressFate::kNoGroup);
  Packet packet;
  packet.dst = address("224.0.0.251");
  packet.dst_mac = group_mac(packet.dst);
  expect_fate(kUp, packet, IngressFate::kNoGroup);
}

TEST_F(Fates, NoRoute) {
  Packet packet;
  packet.dst = address("10.0.9.9");
  expect_fate(kUp, packet, IngressFate::kNoRoute);
  bench.drop_prefix("10.0.9.0", 24);
  expect_fate(kUp, packet, IngressFate::kNoRoute);
}

TEST_F(Fates, ToAndFromTheController) {
  expect_fate(2, igmp_report(group(1, 0)), IngressFate::kToController);
  EXPECT_EQ(bench.egress(kCpuPort), EgressFates{.left = 1});
  bench.clear();
  expect_fate(kCpuPort, with_port(3, Packet{}.bytes()), IngressFate::kFromController);
  EXPECT_EQ(bench.egress(3), EgressFates{.left = 1});
  EXPECT_EQ(bench.sent_on(3), std::vector<Frame>{Packet{}.bytes()});
}

// The copy of a data packet that becomes a summary did not arrive anywhere. A child's last answer
// that becomes one did.
TEST_F(Fates, Aggregation) {
  bench.aggregate(1, {});
  const auto data = [](std::uint32_t request) {
    Packet packet = layer_packet(1, 0);
    packet.payload[8 + 23] = static_cast<std::byte>(request);
    packet.payload[8 + 30] = std::byte{0xc3};  // max_rtt_us: 49920
    return packet;
  };
  const auto answer = [](std::uint32_t source, std::uint32_t request) {
    return feedback_packet({1, source, request, 0, 0, {{0, 1, 0, 1000, 1000, 1}}});
  };
  expect_fate(kUp, data(7), IngressFate::kForwarded);
  expect_fate(2, answer(20, 7), IngressFate::kAggregated);
  expect_fate(3, answer(21, 7), IngressFate::kAggregated);
  EXPECT_EQ(bench.egress(kUp), EgressFates{});
  bench.advance(100 * kMillisecond);
  expect_fate(kUp, data(7), IngressFate::kForwarded);
  EXPECT_EQ(bench.egress(kUp), EgressFates{.left = 1}) << "the summary";
  expect_fate(kUp, data(8), IngressFate::kForwarded);
  expect_fate(2, answer(20, 8), IngressFate::kAggregated);
  expect_fate(3, answer(21, 8), IngressFate::kForwarded);
  EXPECT_EQ(bench.egress(kUp), EgressFates{.left = 2});
  expect_fate(3, answer(21, 8), IngressFate::kAggregated);  // refused, because it came twice
  EXPECT_EQ(bench.counter("summaries", Aggregator{}.slot).packets, 2u);
}

TEST_F(Fates, EachLayerHasAColumnAtEachPort) {
  for (int i = 0; i < 3; ++i) bench.receive(kUp, layer_packet(1, 0));
  bench.receive(kUp, layer_packet(1, 1));
  bench.finish();
  for (std::uint32_t port : {2u, 3u, 4u}) {
    EXPECT_EQ(bench.egress(column(port, 1, 0)), EgressFates{.left = 3});
    EXPECT_EQ(bench.egress(column(port, 1, 1)), EgressFates{.left = 1});
    EXPECT_EQ(bench.egress(column(port, 1, 2)), EgressFates{});
    EXPECT_EQ(bench.egress(column(port, 2, 0)), EgressFates{});
    EXPECT_EQ(bench.egress(port), EgressFates{});
  }
}

TEST_F(Fates, WhatHasNoColumnOfItsOwnIsThePorts) {
  bench.subscribe(group(3, 0), 7, {2});
  bench.receive(kUp, layer_packet(3, 0));
  bench.receive(kUp, Packet{});
  bench.receive(kCpuPort, with_port(2, layer_packet(1, 0).bytes()));  // sent to one port, not
                                                                      // replicated
  bench.finish();
  EXPECT_EQ(bench.egress(2), EgressFates{.left = 3});
  EXPECT_EQ(bench.egress(column(2, 1, 0)), EgressFates{});
}

TEST_F(Fates, BytesAreThoseOfTheFrame) {
  const std::uint64_t bytes = Packet{}.bytes().size();
  for (int i = 0; i < 3; ++i) bench.receive(kUp, Packet{});
  EXPECT_EQ(bench.counter("egress_fates", 2), (engine::CounterValue{3, 3 * bytes}));
}

TEST_F(Fates, Pruned) {
  bench.receive(2, layer_packet(1, 0));
  bench.finish();
  EXPECT_EQ(bench.egress(column(2, 1, 0)), EgressFates{.pruned = 1});
  EXPECT_EQ(bench.egress(column(3, 1, 0)), EgressFates{.left = 1});
}

TEST_F(Fates, MarkedAndDroppedByLayer) {
  for (std::uint32_t port : {2u, 3u, 4u}) bench.limit(port, 8e6, 0);
  bench.marking(2, 0);
  bench.top_group(2, 1, 1);
  bench.drop_tail(3, 2);
  for (int i = 0; i < 6; ++i) bench.receive(kUp, layer_packet(1, i % 2));
  Packet rival;
  rival.dst = address("10.0.1.2");
  bench.receive(kUp, rival);
  bench.finish();
  // All except the first leave with an average above 0.
  EXPECT_EQ(bench.egress(column(2, 1, 0)), EgressFates{.left = 3});
  EXPECT_EQ(bench.egress(column(2, 1, 1)), (EgressFates{.left = 3, .marked = 3}));
  EXPECT_EQ(bench.egress(2), EgressFates{.left = 1});
  // The first is on the link, with two behind it.
  EXPECT_EQ(bench.egress(column(3, 1, 0)), (EgressFates{.left = 2, .dropped = 1}));
  EXPECT_EQ(bench.egress(column(3, 1, 1)), (EgressFates{.left = 1, .dropped = 2}));
  EXPECT_EQ(bench.egress(column(4, 1, 0)), EgressFates{.left = 3});
}

// All paths to a queue, by the counter at ingress.
TEST_F(Fates, WhatEntersAQueueIsCountedByPortOrGroup) {
  bench.receive(kUp, layer_packet(1, 1));
  bench.receive(2, layer_packet(1, 1));  // its copy to port 2 is pruned after the queue
  EXPECT_EQ(bench.entered_group(2), 2u);
  bench.receive(3, Packet{});
  EXPECT_EQ(bench.entered_port(2), 1u);
  bench.receive(kCpuPort, with_port(3, layer_packet(1, 0).bytes()));
  EXPECT_EQ(bench.entered_port(3), 1u);
  bench.receive(2, igmp_report(group(1, 0)));
  EXPECT_EQ(bench.entered_port(kCpuPort), 1u);
  // None of these reach a queue: not valid, expired, no group, no route.
  for (Packet packet : {Packet{}, layer_packet(2, 0), layer_packet(1, 0)}) {
    packet.ttl = 1;
    bench.receive(kUp, packet);
  }
  bench.receive(kUp, layer_packet(2, 0));
  bench.receive(kUp, Frame(10));
  Packet nowhere;
  nowhere.dst = address("10.0.9.9");
  bench.receive(kUp, nowhere);
  std::uint64_t all = 0;
  for (std::uint32_t cell = 0; cell < 512 + 16384; ++cell) {
    all += bench.counter("entered", cell).packets;
  }
  EXPECT_EQ(all, 5u);
}

TEST_F(Fates, SummariesEnterTheQueueTowardsTheSender) {
  bench.aggregate(1, {});
  Packet data = layer_packet(1, 0);
  data.payload[8 + 23] = std::byte{7};
  data.payload[8 + 30] = std::byte{0xc3};  // max_rtt_us: 49920
  bench.receive(kUp, data);
  bench.receive(2, feedback_packet({1, 20, 7, 0, 0, {{0, 1, 0, 1000, 1000, 1}}}));
  bench.finish();
  EXPECT_EQ(bench.entered_port(kUp), 0u) << "the aggregator keeps it";
  bench.advance(100 * kMillisecond);
  bench.receive(kUp, data);  // a copy of it becomes the summary
  bench.finish();
  EXPECT_EQ(bench.entered_port(kUp), 1u);
  EXPECT_EQ(bench.entered_group(1), 2u);
  EXPECT_EQ(bench.entered_port(kCpuPort), 0u) << "the copy's way back to ingress is no port's";
}

// Members come and go. Each set of ports is a group of its own, and no group ever changes. Queues
// overflow. What has entered each queue is then known from ingress alone, for each layer at any
// time. The traffic manager, which counts independently, must agree.
TEST_F(Fates, WhatEnteredIsExactWhileMembersComeAndGo) {
  constexpr std::uint32_t kRanks = 3;
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t bound) {
    return static_cast<std::uint32_t>(random() % bound);
  };
  for (std::uint32_t port = 1; port <= 4; ++port) bench.limit(port, 2e6 * port, 3);
  std::map<std::uint32_t, std::vector<std::uint32_t>> ports_of;  // by group
  std::map<std::uint32_t, std::uint32_t> rank_of;
  std::uint32_t next_group = 100, looks = 0;
  std::uint64_t dropped = 0;
  for (int i = 0; i < 5000; ++i) {
    if (below(20) == 0) {
      const std::uint32_t rank = below(kRanks), members = below(16);
      std::vector<std::uint32_t> ports;
      for (std::uint32_t port = 1; port <= 4; ++port) {
        if (members & 1u << (port - 1)) ports.push_back(port);
      }
      bench.subscribe(group(1, rank), next_group, ports);
      ports_of[next_group] = ports;
      rank_of[next_group++] = rank;
    }
    bench.receive(1 + below(4), below(4) == 0 ? Packet{} : layer_packet(1, below(kRanks)));
    bench.advance(below(4000) * kMicrosecond);
    if (below(50) != 0) continue;
    ++looks;
    for (std::uint32_t port = 1; port <= 4; ++port) {
      std::map<std::uint32_t, std::uint64_t> expected;  // by the traffic manager's label
      if (bench.entered_port(port) > 0) expected[0] = bench.entered_port(port);
      for (const auto& [mgid, ports] : ports_of) {
        const auto copies = static_cast<std::uint64_t>(std::ranges::count(ports, port));
        const std::uint64_t entered = copies * bench.entered_group(mgid);
        if (entered > 0) expected[1 + (8 | rank_of[mgid])] += entered;
      }
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {  // the fixture's groups
        const std::uint64_t entered = port > 1 && rank < 2 ? bench.entered_group(1 + rank) : 0;
        if (entered > 0) expected[1 + (8 | rank)] += entered;
      }
      std::map<std::uint32_t, std::uint64_t> counted;
      for (const engine::LabelCounts& label : bench.engine_switch().label_counts(port)) {
        counted[label.label] = label.entered;
        dropped += label.dropped;
      }
      ASSERT_EQ(counted, expected) << "port " << port << ", packet " << i;
    }
  }
  EXPECT_GT(looks, 50u);
  EXPECT_GT(dropped, 1000u);
}

// Random packets of every kind, valid and invalid, to ports that mark and drop. The fates at
// ingress add up to what arrived, those at egress to what was handed to the ports, and what left is
// what was sent.
TEST_F(Fates, NothingIsCountedTwiceOrNotAtAll) {
  std::mt19937 random(20261122);
  const auto below = [&](std::uint32_t bound) { return draw(random, bound); };
  for (std::uint32_t port = 1; port <= 4; ++port) bench.limit(port, 2e6 * port, 0);
  bench.marking(2, 256);
  bench.top_group(2, 1, 1);
  bench.drop_tail(3, 3);
  bench.red(4, {});
  std::map<std::uint32_t, std::uint64_t> came, entered;
  for (int i = 0; i < 5000; ++i) {
    Packet packet;
    const std::uint32_t port = 1 + below(4), kind = below(8);
    if (kind < 4) packet = layer_packet(1 + below(2), below(3));
    if (kind == 4) packet = igmp_report(group(1, 0));
    if (kind == 5) packet.dst = address("10.0.9.9");
    if (below(8) == 0) packet.ttl = 1;
    if (below(8) == 0) packet.checksum = static_cast<std::uint16_t>(random());
    const bool sound = checksum_right(packet.bytes()) && packet.ttl > 1;
    const bool routed = packet.dst == address("10.0.1.2");
    const bool copied = packet.dst == group(1, 0) || packet.dst == group(1, 1);
    ++came[port];
    if (kind != 4 && sound && routed) ++entered[2];
    if (kind != 4 && sound && copied) {
      for (std::uint32_t to : {2u, 3u, 4u}) ++entered[to];
    }
    bench.receive(port, packet);
    bench.advance(below(3) * kMillisecond);
  }
  bench.finish();
  for (std::uint32_t port = 1; port <= 4; ++port) {
    std::uint64_t at_ingress = 0;
    for (std::uint64_t packets : ingress(port)) at_ingress += packets;
    EXPECT_EQ(at_ingress, came[port]);
    EgressFates sum = bench.egress(port);
    for (std::uint32_t session : {1u, 2u}) {
      for (std::uint32_t rank = 0; rank < 8; ++rank) {
        const EgressFates layer = bench.egress(column(port, session, rank));
        sum.left += layer.left;
        sum.dropped += layer.dropped;
        sum.pruned += layer.pruned;
      }
    }
    EXPECT_EQ(sum.left + sum.dropped + sum.pruned, entered[port]);
    const std::uint64_t copies = port > 1 ? bench.entered_group(1) + bench.entered_group(2) : 0;
    EXPECT_EQ(bench.entered_port(port) + copies, entered[port]);
    EXPECT_EQ(sum.left, bench.sent_on(port).size());
  }
}

}  // namespace
}  // namespace tiercast::p4test
