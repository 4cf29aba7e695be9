// SIM priority marking: which packets are marked, and from which average queue length on.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "tests/p4src/bench.h"
#include "tests/p4src/queue_model.h"

namespace tiercast::p4test {
namespace {

constexpr double kRate = 8e6;           // bit/s
constexpr std::uint32_t kPacket = 256;  // one packet, in units of the average
constexpr std::uint64_t kMac = 0x020000000202;

// Port 2 is the bottleneck. Sessions 1 to 3 have subscribers for ranks 0 to 3 behind it.
class Marking : public SwitchTest {
 protected:
  Marking() {
    bench.limit(2, kRate, 0);
    bench.marking(2, 0);
    bench.host("10.0.1.2", 2, kMac);
    for (std::uint32_t session = 1; session <= 3; ++session) {
      for (std::uint32_t rank = 0; rank <= 3; ++rank) {
        bench.subscribe(group(session, rank), session << 3 | rank, {2});
      }
    }
  }

  // Sends a packet that finds the link idle, then these right behind it, and one more. With
  // threshold 0 the average is above the threshold when any of these departs. Returns whether each
  // was marked.
  std::vector<bool> marks(const std::vector<Packet>& packets) {
    bench.finish();
    bench.advance(kMillisecond);
    bench.clear();
    bench.receive(1, Packet{});
    for (const Packet& packet : packets) bench.receive(1, packet);
    bench.receive(1, Packet{});
    bench.finish();
    const std::vector<Frame> out = bench.sent_on(2);
    EXPECT_EQ(out.size(), packets.size() + 2);
    std::vector<bool> marked;
    for (std::size_t i = 0; i < packets.size() && i + 1 < out.size(); ++i) {
      EXPECT_TRUE(checksum_right(out[i + 1]));
      EXPECT_EQ(ip_payload(out[i + 1]), packets[i].payload);
      marked.push_back(ecn(out[i + 1]) == kCe);
    }
    return marked;
  }
  bool is_marked(const Packet& packet) { return marks({packet}).at(0); }
};

TEST_F(Marking, OfASessionTheTopGroupAlone) {
  for (std::uint32_t top = 0; top <= 3; ++top) {
    bench.top_group(2, 1, top);
    std::vector<bool> expected(4, false);
    expected[top] = true;
    EXPECT_EQ(
        marks({layer_packet(1, 0), layer_packet(1, 1), layer_packet(1, 2), layer_packet(1, 3)}),
        expected)
        << "top group " << top;
  }
}

TEST_F(Marking, FollowsTheTopGroupAsItChanges) {
  bench.top_group(2, 1, 2);
  EXPECT_EQ(marks({layer_packet(1, 1), layer_packet(1, 2)}), (std::vector{false, true}));
  bench.top_group(2, 1, 1);
  EXPECT_EQ(marks({layer_packet(1, 1), layer_packet(1, 2)}), (std::vector{true, false}));
  bench.no_top_group(2, 1);
  EXPECT_EQ(marks({layer_packet(1, 1), layer_packet(1, 2)}), (std::vector{false, false}));
}

TEST_F(Marking, TheTopGroupCountsFromTheNextDepartureOn) {
  bench.top_group(2, 1, 0);
  for (int i = 0; i < 3; ++i) bench.receive(1, layer_packet(1, 1));
  bench.advance(kMillisecond + kMicrosecond);  // the second is on the link, the third is waiting
  bench.top_group(2, 1, 1);
  bench.finish();
  const auto out = bench.sent_on(2);
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(ecn(out[1]), kEct0);
  EXPECT_EQ(ecn(out[2]), kCe);
}

TEST_F(Marking, SessionsThatShareAPortEachHaveTheirTopGroup) {
  bench.top_group(2, 1, 3);
  bench.top_group(2, 2, 0);  // the third session has no top group
  std::vector<Packet> packets;
  for (std::uint32_t session = 1; session <= 3; ++session) {
    for (std::uint32_t rank = 0; rank <= 3; ++rank) packets.push_back(layer_packet(session, rank));
  }
  EXPECT_EQ(marks(packets), (std::vector{false, false, false, true,  //
                                         true, false, false, false,  //
                                         false, false, false, false}));
}

TEST_F(Marking, PortsDecideApart) {
  bench.limit(3, kRate, 0);
  bench.marking(3, 0);
  bench.subscribe(group(4, 0), 100, {2, 3, 4});
  bench.subscribe(group(4, 1), 101, {2, 3, 4});
  bench.top_group(2, 4, 1);
  bench.top_group(3, 4, 0);
  bench.top_group(4, 4, 1);  // unlimited, so there is no queue
  for (int i = 0; i < 4; ++i) {
    bench.receive(1, layer_packet(4, 0));
    bench.receive(1, layer_packet(4, 1));
  }
  bench.finish();
  const auto marked_on = [&](std::uint32_t port, std::uint32_t rank) {
    const auto frames = bench.sent_on(port);
    return std::count_if(frames.begin(), frames.end(), [&](const Frame& frame) {
      return dst(frame) == group(4, rank) && ecn(frame) == kCe;
    });
  };
  EXPECT_EQ(marked_on(2, 0), 0);
  EXPECT_EQ(marked_on(2, 1), 4);
  EXPECT_EQ(marked_on(3, 0), 3);  // all but the one that found the link idle
  EXPECT_EQ(marked_on(3, 1), 0);
  EXPECT_EQ(marked_on(4, 0), 0);
  EXPECT_EQ(marked_on(4, 1), 0);
}

TEST_F(Marking, OnlyEctPackets) {
  bench.top_group(2, 1, 0);
  Packet packet = layer_packet(1, 0);
  packet.dscp = 46;
  for (unsigned codepoint : {kNotEct, kEct1, kEct0, kCe}) {
    packet.ecn = static_cast<std::uint8_t>(codepoint);
    marks({packet});
    const Frame out = bench.sent_on(2).at(1);
    EXPECT_EQ(ecn(out), codepoint == kNotEct ? kNotEct : kCe);
    EXPECT_EQ(std::to_integer<unsigned>(out[kEthernetBytes + 1]) >> 2, packet.dscp);
  }
  EXPECT_EQ(bench.egress(2).marked, 2u) << "marks made elsewhere are not counted";
}

// RFC 1624: adjusting goes wrong at the two zeros of one's complement.
TEST_F(Marking, ChecksumsStayRightNextToZero) {
  bench.top_group(2, 1, 0);
  std::vector<Packet> packets;
  for (unsigned id = 0; id <= 0xffff; ++id) {
    Packet packet = layer_packet(1, 0, 60);
    packet.identification = static_cast<std::uint16_t>(id);
    packet.ecn = id % 2 == 0 ? kEct0 : kEct1;
    packet.ttl = static_cast<std::uint8_t>(64 + id % 4 / 2);
    const std::uint16_t sum = checksum(packet.bytes());
    if (sum < 0x0200 || sum >= 0xfe00) packets.push_back(packet);
  }
  ASSERT_GE(packets.size(), 1000u);
  EXPECT_EQ(marks(packets), std::vector<bool>(packets.size(), true));
}

TEST_F(Marking, NeitherUnicastNorOtherGroups) {
  bench.top_group(2, 1, 0);
  bench.top_group(2, 0, 0);
  Packet unicast;
  unicast.ecn = kEct0;
  EXPECT_FALSE(is_marked(unicast));
  std::uint32_t mgid = 200;
  // Addresses just outside 239.192.0.0/14, with the low bits of session 1.
  for (std::string_view near : {"239.191.255.255", "239.196.0.0", "239.128.0.8", "238.192.0.8"}) {
    Packet packet;
    packet.dst = address(near);
    packet.dst_mac = group_mac(packet.dst);
    packet.ecn = kEct0;
    bench.subscribe(packet.dst, mgid++, {2});
    EXPECT_FALSE(is_marked(packet)) << near;
  }
}

// The group's address identifies it. Nothing after the fixed IPv4 header is needed.
TEST_F(Marking, WhateverThePacketHolds) {
  bench.top_group(2, 1, 0);
  Packet fragment = layer_packet(1, 0);
  fragment.frag_offset = 64;
  Packet with_options = layer_packet(1, 0);
  with_options.options.assign(8, std::byte{0x01});
  Packet no_udp = layer_packet(1, 0);
  no_udp.payload.resize(3);
  Packet other_protocol = layer_packet(1, 0);
  other_protocol.protocol = kTcp;
  EXPECT_EQ(marks({fragment, with_options, no_udp, other_protocol}),
            (std::vector{true, true, true, true}));
}

TEST_F(Marking, NothingWhereThePortDoesNotMark) {
  bench.top_group(2, 1, 0);
  EXPECT_TRUE(is_marked(layer_packet(1, 0)));
  EXPECT_GT(bench.avg_queue(2), 0u);
  bench.no_marking(2);
  EXPECT_FALSE(is_marked(layer_packet(1, 0)));
  EXPECT_EQ(bench.avg_queue(2), 0u);
}

TEST_F(Marking, MarksAreCounted) {
  bench.top_group(2, 1, 0);
  marks(std::vector<Packet>(5, layer_packet(1, 0)));
  EXPECT_EQ(bench.egress(2), (EgressFates{.left = 7, .marked = 5}));
}

// --- The average and the threshold ---

// Packets of a session, and others that only fill the queue, in bursts of random sizes.
struct Traffic {
  std::vector<Arrival> arrivals;
  std::vector<Packet> packets;
};

Traffic bursts(unsigned seed, std::size_t count) {
  std::mt19937 random(seed);
  Traffic traffic;
  std::int64_t time_us = 1;
  for (std::size_t i = 0; i < count; ++i) {
    // Mostly close together; now and then a pause lets the queue run empty.
    const std::uint32_t kind = draw(random, 40);
    time_us += kind == 0 ? 20'000 + random() % 20'000 : kind < 10 ? 2'000 : random() % 600;
    const std::uint32_t bytes = 60 + draw(random, 1441);
    Packet packet = layer_packet(1, random() % 2, bytes);
    if (random() % 4 == 0) {
      packet.dst = address("10.0.1.2");
      packet.dst_mac = kMac;
    }
    packet.identification = static_cast<std::uint16_t>(i);
    // Each packet gets a nanosecond of its own. Service times are whole microseconds, so no packet
    // arrives at the very instant at which another departs.
    traffic.arrivals.push_back({time_us * kMicrosecond + static_cast<std::int64_t>(i), bytes});
    traffic.packets.push_back(packet);
  }
  return traffic;
}

class Average : public Marking {
 protected:
  // Runs the traffic through port 2. Calls seen(index, departure) after each departure.
  template <class Seen>
  void run(const Traffic& traffic, Seen seen) {
    const std::int64_t start = bench.now();
    std::vector<Arrival> arrivals = traffic.arrivals;
    for (Arrival& arrival : arrivals) arrival.time_ns += start;
    const std::vector<Departure> out = departures(arrivals, kNsPerByte);
    std::size_t arrived = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      while (arrived < arrivals.size() && arrivals[arrived].time_ns <= out[i].time_ns) {
        bench.advance_to(arrivals[arrived].time_ns);
        bench.receive(1, traffic.packets[arrived++]);
      }
      bench.advance_to(out[i].time_ns);
      seen(i, out[i]);
    }
    bench.finish();
  }
};

constexpr unsigned kSeed = 2000;
constexpr std::size_t kPackets = 900;  // must stay below 1000: see bursts()

TEST_F(Average, IsTheModelsAfterEveryDeparture) {
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  FixedPointAverage model;
  std::uint32_t longest = 0;
  run(bursts(kSeed, kPackets), [&](std::size_t i, const Departure& departure) {
    model.depart(departure);
    longest = std::max(longest, departure.depth);
    ASSERT_EQ(bench.avg_queue(2), model.units)
        << "departure " << i << ", depth " << departure.depth;
  });
  EXPECT_GE(longest, 15u) << "the traffic is to reach lengths that matter";
}

// docs/p4.md derives it: the average is never below the exact one, and at most 7/256 packet above.
TEST_F(Average, ErrorOfTheFixedPointIsWithinItsBound) {
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  ExactAverage exact;
  double least = 1, most = 0;
  run(bursts(kSeed, kPackets), [&](std::size_t, const Departure& departure) {
    exact.depart(departure);
    const double error = bench.avg_queue(2) / 256.0 - exact.packets;
    least = std::min(least, error);
    most = std::max(most, error);
  });
  EXPECT_GE(least, -1e-9);
  EXPECT_LE(most, 7 / 256.0 + 1e-9);
  EXPECT_GT(most, 3 / 256.0) << "the bound is to be of the right size";
}

// The whole error remains when a queue shrinks to a constant length.
TEST_F(Average, ErrorReachesItsBound) {
  constexpr std::uint32_t kLong = 30, kConstant = 10;
  Traffic traffic;
  const auto add = [&](std::int64_t time_ns) {
    traffic.arrivals.push_back({time_ns, 1000});
    traffic.packets.push_back(layer_packet(1, 0));
  };
  for (std::uint32_t i = 0; i <= kLong; ++i) add(i);
  for (std::uint32_t i = 0; i < 150; ++i) add((kLong - kConstant + i) * kMillisecond + 100 + i);
  std::uint32_t steady = 0;
  run(traffic, [&](std::size_t i, const Departure& departure) {
    if (i == 150) {
      EXPECT_EQ(departure.depth, kConstant);
      steady = bench.avg_queue(2);
    }
  });
  EXPECT_EQ(steady, kConstant * kPacket + 7);
}

TEST_F(Average, APacketIsMarkedExactlyWhenItIsAboveTheThreshold) {
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  const Traffic traffic = bursts(kSeed, kPackets);
  std::vector<std::uint32_t> averages;
  FixedPointAverage model;
  for (const Departure& departure : departures(traffic.arrivals, kNsPerByte)) {
    model.depart(departure);
    averages.push_back(model.units);
  }
  std::vector<std::uint32_t> sorted = averages;
  std::sort(sorted.begin(), sorted.end());
  const std::uint32_t median = sorted[sorted.size() / 2];
  ASSERT_GT(median, 0u);
  bench.top_group(2, 1, 1);

  for (std::uint32_t threshold : {0u, 1u, kPacket, median - 1, median, median + 1, 5 * kPacket,
                                  sorted.back() - 1, sorted.back(), 0xffffffffu}) {
    bench.marking(2, threshold);
    bench.advance(kMillisecond);
    bench.clear();
    run(traffic, [](std::size_t, const Departure&) {});
    const std::vector<Frame> out = bench.sent_on(2);
    ASSERT_EQ(out.size(), averages.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(identification(out[i]), i);
      const bool top = dst(out[i]) == group(1, 1);
      ASSERT_EQ(ecn(out[i]) == kCe, top && averages[i] > threshold)
          << "packet " << i << ", average " << averages[i] << ", threshold " << threshold;
    }
  }
}

TEST_F(Average, IsZeroForThePacketThatFindsTheLinkIdle) {
  bench.top_group(2, 1, 0);
  marks(std::vector<Packet>(20, layer_packet(1, 0)));
  EXPECT_GT(bench.avg_queue(2), kPacket) << "as of the last departure";
  bench.clear();
  bench.receive(1, layer_packet(1, 0));
  EXPECT_EQ(bench.avg_queue(2), 0u);
  bench.finish();
  EXPECT_EQ(ecn(bench.sent_on(2).at(0)), kEct0);
}

TEST_F(Average, IsKeptWhileTheLinkIsBusyAndTheQueueEmpty) {
  marks(std::vector<Packet>(3, layer_packet(1, 0)));
  bench.receive(1, Packet{});  // idle: 0
  bench.receive(1, layer_packet(1, 0));
  bench.receive(1, layer_packet(1, 0));
  bench.finish();
  EXPECT_EQ(bench.avg_queue(2), 28u) << "1/8 packet, then 7/8 of that";
}

// Where a target's wait on an idle link is not exactly 0, idle_us says up to which wait the link
// counts as idle.
TEST_F(Average, AShortWaitCountsAsIdleUpToTheLimit) {
  for (const auto& [idle_us, counts_as_idle] : {std::pair{0u, false}, {99u, false}, {100u, true}}) {
    bench.marking(2, 0, idle_us);
    marks(std::vector<Packet>(10, layer_packet(1, 0)));
    bench.receive(1, layer_packet(1, 0));  // finds the link idle
    for (int i = 0; i < 2; ++i) bench.receive(1, layer_packet(1, 0));
    bench.advance(3 * kMillisecond - 100 * kMicrosecond);  // the queue is empty, and the link is
                                                           // busy
    const std::uint32_t before = bench.avg_queue(2);
    ASSERT_GT(before, 0u);
    bench.receive(1, layer_packet(1, 0));  // waits for 100 us
    bench.finish();
    EXPECT_EQ(bench.avg_queue(2), counts_as_idle ? 0 : (7 * before + 7) / 8) << idle_us << " us";
  }
}

TEST_F(Average, APacketThatFoundOthersWaitingDidNotFindTheLinkIdle) {
  bench.marking(2, 0, 100'000);
  bench.receive(1, Packet{});
  for (int i = 0; i < 3; ++i) bench.receive(1, layer_packet(1, 0));
  bench.finish();
  // The second found the queue empty, the others did not. 1 and 0 packets were left when they
  // departed.
  EXPECT_EQ(bench.avg_queue(2), (7 * 32 + 7) / 8);
}

TEST_F(Average, OtherPortsHaveTheirOwn) {
  marks(std::vector<Packet>(5, layer_packet(1, 0)));
  EXPECT_GT(bench.avg_queue(2), 0u);
  for (std::uint32_t port : {0u, 1u, 3u, 4u, 511u}) EXPECT_EQ(bench.avg_queue(port), 0u) << port;
}

}  // namespace
}  // namespace tiercast::p4test
