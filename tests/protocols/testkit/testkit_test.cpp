// Tests the virtual network itself, so that other tests can trust it.
#include <gtest/gtest.h>

#include <vector>

#include "protocols/testkit/link.h"
#include "protocols/testkit/red.h"
#include "protocols/testkit/tcp.h"
#include "protocols/testkit/tree.h"

namespace tiercast::testkit {
namespace {

struct Recorder : PacketSink {
  explicit Recorder(Simulator& s) : simulator(s) {}
  void receive(const Packet& packet) override {
    arrivals.push_back(simulator.now());
    packets.push_back(packet);
  }
  Simulator& simulator;
  std::vector<Time> arrivals;
  std::vector<Packet> packets;
};

Packet data(Rank rank = 0, std::uint32_t length = 1000) {
  Packet packet;
  packet.ip_length = length;
  packet.multicast = true;
  packet.session = 1;
  packet.rank = rank;
  packet.ect = true;
  return packet;
}

LinkConfig config(double mbit, double delay_ms, std::uint32_t queue) {
  LinkConfig link;
  link.rate = Rate::mbit_per_second(mbit);
  link.delay = Duration::seconds(delay_ms * 1e-3);
  link.queue = {queue, 0};
  return link;
}

struct TestActor : Actor {
  TestActor(Simulator& s, std::vector<int>& l, int i) : Actor(s), log(l), id(i) {}
  using Actor::set_call;
  void act() override { log.push_back(id); }
  std::vector<int>& log;
  int id;
};

TEST(Simulator, RunsCallsInOrderOfTimeThenOfAsking) {
  Simulator simulator;
  std::vector<int> log;
  TestActor a(simulator, log, 1), b(simulator, log, 2), c(simulator, log, 3);
  a.set_call(Time::nanoseconds(20));
  b.set_call(Time::nanoseconds(10));
  c.set_call(Time::nanoseconds(20));
  simulator.at(Time::nanoseconds(20), [&] { log.push_back(4); });
  a.set_call(Time::nanoseconds(20));  // asked again, so it is now after the others
  simulator.run_until(Time::nanoseconds(30));
  EXPECT_EQ(log, (std::vector<int>{2, 3, 4, 1}));
  EXPECT_EQ(simulator.now(), Time::nanoseconds(30));
}

TEST(Simulator, ACancelledCallAndADestroyedActorAreSilent) {
  Simulator simulator;
  std::vector<int> log;
  TestActor a(simulator, log, 1);
  a.set_call(Time::nanoseconds(5));
  a.set_call(Time::never());
  {
    TestActor b(simulator, log, 2);
    b.set_call(Time::nanoseconds(5));
  }
  simulator.run_until(Time::nanoseconds(10));
  EXPECT_TRUE(log.empty());
}

TEST(Link, DelayIsSerialisationPlusPropagation) {
  Simulator simulator;
  Recorder recorder(simulator);
  Link link(simulator, config(8, 5, 50), recorder);  // 1000 B at 8 Mbit/s: 1 ms
  link.send(data());
  link.send(data());
  simulator.run_for(Duration::seconds(1));
  ASSERT_EQ(recorder.arrivals.size(), 2u);
  EXPECT_EQ(recorder.arrivals[0], Time::zero() + Duration::milliseconds(6));
  EXPECT_EQ(recorder.arrivals[1], Time::zero() + Duration::milliseconds(7));
}

TEST(Link, UnlimitedRateIsPropagationAlone) {
  Simulator simulator;
  Recorder recorder(simulator);
  Link link(simulator, config(0, 5, 50), recorder);
  for (int i = 0; i < 100; ++i) link.send(data());
  simulator.run_for(Duration::seconds(1));
  ASSERT_EQ(recorder.arrivals.size(), 100u);
  EXPECT_EQ(recorder.arrivals[99], Time::zero() + Duration::milliseconds(5));
}

// 12 Mbit/s are offered to 6 Mbit/s: exactly 6 Mbit/s arrive in 10 s, to the packet, and the rest
// is dropped.
TEST(Link, ASaturatedLinkCarriesItsRate) {
  Simulator simulator;
  Recorder recorder(simulator);
  Link link(simulator, config(6, 5, 50), recorder);
  const double interval = 1000 / 1.5e6;
  for (int i = 0; i < 15'000; ++i) {
    simulator.at(Time::zero() + Duration::seconds(i * interval), [&] { link.send(data()); });
  }
  simulator.run_until(Time::zero() + Duration::seconds(10) + Duration::milliseconds(5));
  EXPECT_EQ(recorder.arrivals.size(), 7500u);
  EXPECT_EQ(link.stats().max_queue, 50u);
  EXPECT_EQ(link.stats().dropped, 15'000u - link.stats().sent - link.queue_packets());
}

TEST(Link, AQueueOfOnePacketHoldsOneBesidesTheOneInService) {
  Simulator simulator;
  Recorder recorder(simulator);
  Link link(simulator, config(8, 0, 1), recorder);
  for (int i = 0; i < 5; ++i) link.send(data());
  simulator.run_for(Duration::seconds(1));
  EXPECT_EQ(recorder.arrivals.size(), 2u);
  EXPECT_EQ(link.stats().dropped, 3u);
}

TEST(Link, ABoundInBytesHoldsToo) {
  Simulator simulator;
  Recorder recorder(simulator);
  LinkConfig bytes = config(8, 0, 0);
  bytes.queue = {0, 2500};
  Link link(simulator, bytes, recorder);
  for (int i = 0; i < 4; ++i) link.send(data());
  link.send(data(0, 500));
  EXPECT_EQ(link.stats().dropped, 1u);  // the fourth of 1000 B; 500 B still fit
}

// Ten packets at once on an idle link. The departures see 0, 8, 7 .. 0 waiting; the EWMA (weight
// 1/8) starts from 0 at the first.
TEST(Link, MarksExactlyWhereTheAverageExceedsTheThreshold) {
  Simulator simulator;
  Recorder recorder(simulator);
  LinkConfig marked = config(8, 0, 50);
  marked.threshold = 2;
  Link link(simulator, marked, recorder);
  link.set_top_group(1, 0);
  for (int i = 0; i < 10; ++i) link.send(data());
  simulator.run_for(Duration::seconds(1));
  double average = 0;
  for (std::size_t i = 0; i < 10; ++i) {
    if (i > 0) average += (static_cast<double>(9 - i) - average) / 8;
    EXPECT_EQ(recorder.packets[i].ce, average > 2) << "packet " << i;
  }
  EXPECT_EQ(link.stats().marked, 7u);
  link.send(data());  // the link was idle, so the average starts again from 0
  EXPECT_EQ(link.average_queue(), 0);
}

TEST(Link, MarksTheTopGroupOfEachSessionAlone) {
  Simulator simulator;
  Recorder recorder(simulator);
  LinkConfig marked = config(8, 0, 50);
  marked.threshold = 0;
  Link link(simulator, marked, recorder);
  link.set_top_group(1, 2);
  for (int i = 0; i < 9; ++i) {
    Packet packet = data(static_cast<Rank>(i % 3));
    packet.session = i < 6 ? 1 : 2;
    link.send(packet);
  }
  simulator.run_for(Duration::seconds(1));
  for (const Packet& packet : recorder.packets) {
    if (packet.ce) {
      EXPECT_EQ(packet.session, 1);
      EXPECT_EQ(packet.rank, 2);
    }
  }
  EXPECT_EQ(link.stats().marked, 2u);
}

TEST(Link, LeavesPacketsThatAreNotEcnCapableUnmarked) {
  Simulator simulator;
  Recorder recorder(simulator);
  LinkConfig marked = config(8, 0, 50);
  marked.threshold = 0;
  Link link(simulator, marked, recorder);
  link.set_top_group(1, 0);
  for (int i = 0; i < 10; ++i) {
    Packet packet = data();
    packet.ect = i % 2 == 0;
    link.send(packet);
  }
  simulator.run_for(Duration::seconds(1));
  for (const Packet& packet : recorder.packets) EXPECT_TRUE(packet.ect || !packet.ce);
  EXPECT_EQ(link.stats().marked, 4u);  // the first found the link idle
}

TEST(Red, SparesAPacketThatFindsFewerThanTwoWaiting) {
  // The average is above all thresholds as soon as a packet finds another one.
  RedConfig all;
  all.weight = 1;
  all.min_threshold = 0.1;
  all.max_threshold = 0.2;
  Red red(all);
  const auto congested = [&](double waiting) {
    return red.congested(Time::zero(), waiting, Duration::milliseconds(1));
  };
  EXPECT_FALSE(congested(0));
  EXPECT_FALSE(congested(1));
  EXPECT_TRUE(congested(2));
  EXPECT_FALSE(congested(1));
}

// PROTOCOLS 3.4: min(5 packets, 20 ms of the link's rate), at least 2.
TEST(Link, DefaultThresholdFollowsTheRate) {
  const auto marks_at = [](double mbit) {
    Simulator simulator;
    Recorder recorder(simulator);
    Link link(simulator, config(mbit, 0, 50), recorder);
    link.set_top_group(1, 0);
    double first = 0;
    for (int i = 0; i < 40; ++i) link.send(data());
    while (link.stats().marked == 0) {
      first = link.average_queue();
      simulator.run_for(Duration::milliseconds(1));
    }
    return std::pair(first, link.average_queue());
  };
  for (const auto& [mbit, threshold] :
       {std::pair(6.0, 5.0), std::pair(1.0, 2.5), std::pair(0.5, 2.0)}) {
    const auto [below, above] = marks_at(mbit);
    EXPECT_LE(below, threshold);
    EXPECT_GT(above, threshold);
  }
}

class TreeTest : public testing::Test {
 protected:
  static constexpr std::uint16_t kSession = 1;
  TreeTest()
      : tree(simulator, Tree::balanced_parents(4), config(8, 5, 50), Duration::milliseconds(10)) {
    for (Tree::Node node = 0; node < tree.size(); ++node) {
      hosts.push_back(std::make_unique<Recorder>(simulator));
      tree.attach(node, kSession, hosts.back().get());
    }
    tree.on_membership(kSession, [this](int top) { tops.push_back(top); });
  }
  void run_ms(double t) { simulator.run_for(Duration::seconds(t * 1e-3)); }

  Simulator simulator;
  Tree tree;
  std::vector<std::unique_ptr<Recorder>> hosts;
  std::vector<int> tops;
};

TEST_F(TreeTest, UnicastFindsItsWay) {
  Packet packet;
  packet.ip_length = 1000;
  packet.session = kSession;
  packet.to = 6;
  tree.send(3, packet);  // 3 - 1 - 0 - 2 - 6: four links of 1 ms + 5 ms
  run_ms(100);
  ASSERT_EQ(hosts[6]->arrivals.size(), 1u);
  EXPECT_EQ(hosts[6]->arrivals[0], Time::zero() + Duration::milliseconds(24));
}

TEST_F(TreeTest, AJoinTakesItsTimeAndThenPacketsArrive) {
  tree.join(3, kSession, 0);
  run_ms(19.9);  // 5 ms to node 1, 10 ms control, 5 ms to node 0
  EXPECT_TRUE(tops.empty());
  run_ms(0.2);
  EXPECT_EQ(tops, std::vector<int>{0});
  tree.send(0, data());
  run_ms(100);
  EXPECT_EQ(hosts[3]->arrivals.size(), 1u);
  EXPECT_TRUE(hosts[4]->arrivals.empty());
  EXPECT_EQ(tree.subscribers(kSession, 0), 1u);
}

TEST_F(TreeTest, ASecondJoinerIsGraftedAtTheNearestBranch) {
  tree.join(3, kSession, 0);
  run_ms(100);
  tree.join(4, kSession, 0);
  run_ms(15.1);  // node 1 already has the group
  tree.send(0, data());
  run_ms(100);
  EXPECT_EQ(hosts[3]->arrivals.size(), 1u);
  EXPECT_EQ(hosts[4]->arrivals.size(), 1u);
  EXPECT_EQ(tree.down(1).stats().sent, 1u);  // one copy on the shared link
}

TEST_F(TreeTest, ALeavePrunesOnlyWhatNobodyElseWants) {
  for (const Tree::Node node : {3u, 4u}) tree.join(node, kSession, 0);
  run_ms(100);
  tree.leave(3, kSession, 0);
  run_ms(100);
  tree.send(0, data());
  run_ms(100);
  EXPECT_TRUE(hosts[3]->arrivals.empty());
  EXPECT_EQ(hosts[4]->arrivals.size(), 1u);
  tree.leave(4, kSession, 0);
  run_ms(100);
  EXPECT_EQ(tops, (std::vector<int>{0, -1}));
  EXPECT_EQ(tree.down(1).stats().sent, 1u);
}

// Node 1 has a host of its own, above nodes 3 and 4. Whoever of two members leaves, the other one
// goes on getting the packets.
TEST_F(TreeTest, AMemberAtAnInnerNodeAndOneBelowItDoNotDependOnEachOther) {
  for (const auto& [first, second] : {std::pair{1u, 3u}, std::pair{3u, 1u}}) {
    tree.join(first, kSession, 0);
    tree.join(second, kSession, 0);
    run_ms(100);
    tree.leave(first, kSession, 0);
    run_ms(100);
    const std::size_t then = hosts[second]->arrivals.size();
    tree.send(0, data());
    run_ms(100);
    EXPECT_EQ(hosts[second]->arrivals.size(), then + 1) << second;
    tree.leave(second, kSession, 0);
    run_ms(100);
    const std::uint64_t sent = tree.down(1).stats().sent;
    tree.send(0, data());
    run_ms(100);
    EXPECT_EQ(tree.down(1).stats().sent, sent) << "nobody wants it any more";
  }
}

TEST_F(TreeTest, ARelaySeesWhatComesToItsNodeAndMayTakeIt) {
  struct TakesUnicast : Relay {
    bool take(const Packet& packet) override {
      seen.push_back(packet);
      return !packet.multicast;
    }
    std::vector<Packet> seen;
  } relay;
  tree.set_relay(1, &relay);
  tree.join(3, kSession, 0);
  run_ms(100);
  tree.send(0, data());
  Packet unicast = data();
  unicast.multicast = false;
  tree.send(3, unicast);  // to node 0
  run_ms(100);
  EXPECT_EQ(relay.seen.size(), 2u);
  EXPECT_EQ(hosts[3]->arrivals.size(), 1u);
  EXPECT_TRUE(hosts[0]->arrivals.empty());
  tree.pass_on(1, unicast);
  run_ms(100);
  EXPECT_EQ(hosts[0]->arrivals.size(), 1u);
  EXPECT_EQ(relay.seen.size(), 2u);
}

TEST_F(TreeTest, EachLinkKnowsItsTopGroup) {
  LinkConfig marked = config(8, 0, 50);
  marked.threshold = 0;
  Tree narrow(simulator, Tree::balanced_parents(2), marked, Duration::zero());
  narrow.join(1, kSession, 0);
  narrow.join(2, kSession, 0);
  narrow.join(2, kSession, 1);
  run_ms(100);
  for (int i = 0; i < 5; ++i) {
    narrow.send(0, data(0));
    narrow.send(0, data(1));
  }
  run_ms(100);
  EXPECT_EQ(narrow.down(1).stats().marked,
            4u);  // rank 0 is the top there; the first finds the link idle
  EXPECT_EQ(narrow.down(2).stats().sent, 10u);
  EXPECT_EQ(narrow.down(2).stats().marked, 5u);
}

// PROTOCOLS 13.1: averages of 6, 10 and 14 give p_b = 0.01, 0.05 and 0.09. There are more than n
// packets between two marks with probability (1 - (n+1) p_b) / (1 - p_b); their sum is the mean
// gap.
TEST(Red, MarksWithTheProbabilityOfItsAverage) {
  for (const auto& [queue, p_b] : {std::pair{6.0, 0.01}, {10.0, 0.05}, {14.0, 0.09}}) {
    RedConfig config;
    config.weight = 1;  // the average equals the queue
    Red red(config);
    constexpr int kPackets = 400'000;
    int marks = 0;
    for (int i = 0; i < kPackets; ++i) {
      marks += red.congested(Time::zero(), queue, Duration::milliseconds(1)) ? 1 : 0;
    }
    double gap = 0;
    for (int n = 0; (n + 1) * p_b < 1; ++n) gap += (1 - (n + 1) * p_b) / (1 - p_b);
    EXPECT_NEAR(marks / double{kPackets}, 1 / gap, 0.02 / gap) << queue;
  }
}

TEST(Red, KeepsAwayBelowAndMarksAllAbove) {
  RedConfig config;
  config.weight = 1;
  Red red(config);
  EXPECT_FALSE(red.congested(Time::zero(), 4.9, Duration::milliseconds(1)));
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(red.congested(Time::zero(), 15, Duration::milliseconds(1)));
  }
}

TEST(Red, TheAverageOfAnIdleLinkDecaysOnceAPacketTime) {
  RedConfig config;
  config.weight = 0.5;
  Red red(config);
  for (int i = 0; i < 60; ++i) red.congested(Time::zero(), 8, Duration::milliseconds(1));
  red.idle(Time::zero());
  red.congested(Time::zero() + Duration::milliseconds(3), 0, Duration::milliseconds(1));
  EXPECT_NEAR(red.average(), 1.0, 1e-9);
}

struct Dumbbell {
  Dumbbell(double mbit, std::uint32_t queue, std::optional<RedConfig> red = std::nullopt)
      : tree(simulator, {0, 0, 1, 1, 1}, config(100, 5, 1000), Duration::zero()) {
    LinkConfig bottleneck = config(mbit, 20, queue);
    bottleneck.red = red;
    tree.configure(1, bottleneck);
  }
  double mbit(const TcpFlow& flow, std::uint64_t since, double seconds) const {
    return static_cast<double>(flow.delivered_packets() - since) * 8e-3 / seconds;
  }
  Simulator simulator;
  Tree tree;
};

TEST(Tcp, FillsALink) {
  Dumbbell net(2, 25);
  TcpFlow flow(net.simulator, net.tree, 0, 2, 100);
  flow.start();
  net.simulator.run_for(Duration::seconds(20));
  const std::uint64_t then = flow.delivered_packets();
  net.simulator.run_for(Duration::seconds(100));
  EXPECT_GT(net.mbit(flow, then, 100), 1.9);
  EXPECT_LE(net.mbit(flow, then, 100), 2.0);
  EXPECT_GT(flow.window_cuts(), 10u);
  EXPECT_GT(flow.srtt(), Duration::milliseconds(50));
  EXPECT_LT(flow.srtt(), Duration::milliseconds(170));  // 50 ms and a full queue of 100 ms
}

// Slow start drops half of a window of two pipes. At one hole per round trip, with a full queue and
// a window that duplicate acknowledgements inflate, repair would take half a minute (RFC 6582, 4:
// "slow but steady").
TEST(Tcp, SlowStartsOvershootEndsWithinSeconds) {
  Dumbbell net(1, 50);
  TcpFlow flow(net.simulator, net.tree, 0, 2, 100);
  flow.start();
  net.simulator.run_for(Duration::seconds(10));
  EXPECT_LT(flow.cwnd(), 70);  // 50 packets of queue and 6 on the way
}

TEST(Tcp, FlowsShareALink) {
  RedConfig red;
  Dumbbell net(4, 50, red);
  TcpFlow a(net.simulator, net.tree, 0, 2, 100);
  TcpFlow b(net.simulator, net.tree, 0, 3, 101);
  a.start();
  net.simulator.at(Time::zero() + Duration::seconds(3), [&] { b.start(); });
  net.simulator.run_for(Duration::seconds(20));
  const std::uint64_t then_a = a.delivered_packets();
  const std::uint64_t then_b = b.delivered_packets();
  net.simulator.run_for(Duration::seconds(300));
  EXPECT_NEAR(net.mbit(a, then_a, 300) / net.mbit(b, then_b, 300), 1, 0.2);
  // RED keeps the queue at 5 to 15 packets, but the path needs 25, so a cut empties the link.
  EXPECT_GT(net.mbit(a, then_a, 300) + net.mbit(b, then_b, 300), 3.2);
}

TEST(Tcp, ReactsToMarksWithoutLoss) {
  RedConfig red;
  red.ecn = true;
  Dumbbell net(4, 100, red);
  TcpConfig tcp;
  tcp.ecn = true;
  TcpFlow flow(net.simulator, net.tree, 0, 2, 100, tcp);
  flow.start();
  net.simulator.run_for(Duration::seconds(20));
  const std::uint64_t then = flow.delivered_packets();
  const std::uint64_t dropped = net.tree.down(1).stats().dropped;
  net.simulator.run_for(Duration::seconds(100));
  EXPECT_EQ(net.tree.down(1).stats().dropped, dropped);
  EXPECT_GT(net.mbit(flow, then, 100), 3.2);
}

}  // namespace
}  // namespace tiercast::testkit
