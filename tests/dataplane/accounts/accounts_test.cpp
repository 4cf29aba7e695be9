// The equation of accounts.h: the traffic manager's counts and the P4 program's counts must agree.
#include "dataplane/accounts/accounts.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "tests/p4src/aggregation_model.h"
#include "tests/p4src/bench.h"

namespace tiercast::accounts {

void PrintTo(const SessionCounts& s, std::ostream* out) {
  const Counts& c = s.counts;
  *out << "{session " << s.session << ", layer " << s.layer << ": entered " << c.entered
       << ", queue_drops " << c.queue_drops << ", waiting " << c.waiting << ", left " << c.left
       << ", down_drops " << c.down_drops << ", link_losses " << c.link_losses << ", duplicated "
       << c.duplicated << ", marked " << c.marked << ", policy_drops " << c.policy_drops
       << ", pruned " << c.pruned << "}";
}

namespace {

using namespace p4test;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// group() follows only docs/wire-format.md.
TEST(AccountsLabel, IsOneMoreThanSessionAndRankOfTheGroup) {
  const auto label = by_group().label;
  for (const std::uint32_t session : {0u, 1u, 2u, 255u, 256u, 32767u}) {
    for (std::uint32_t rank = 0; rank < 8; ++rank) {
      EXPECT_EQ(label(group(session, rank)), 1 + (session * 8 + rank));
    }
  }
}

TEST(AccountsLabel, OfAnyOtherAddressIs0) {
  for (const std::string_view to : {"0.0.0.0", "10.0.1.2", "224.0.0.1", "239.191.255.255",
                                    "239.196.0.0", "238.192.0.8", "255.255.255.255"}) {
    EXPECT_EQ(by_group().label(address(to)), 0u) << to;
  }
}

// Programs whose headers have other names.
TEST(AccountsLabel, OfAFrameIsThatOfItsDestination) {
  for (const std::uint32_t session : {1u, 32767u}) {
    const auto frame = layer_packet(session, 3).bytes();
    EXPECT_EQ(by_group().of_frame(frame), by_group().label(group(session, 3)));
    EXPECT_EQ(by_group().of_frame(std::span(frame).first(33)), 0u);
  }
  Packet unicast;
  unicast.payload.resize(10);
  EXPECT_EQ(by_group().of_frame(unicast.bytes()), 0u);
}

constexpr std::uint32_t kUp = 1;   // towards the sender
constexpr std::uint32_t kOut = 2;  // the port whose accounts are checked
constexpr std::uint32_t kLayers = 3;
constexpr std::uint32_t kSessions = 2;  // that have columns; a third one has none

// 10.0.0.2, the sender, is behind port 1 and 10.0.1.2 behind port 2, where packets take 1 ms.
class Accounts : public SwitchTest {
 protected:
  Accounts() {
    bench.host("10.0.0.2", kUp, 0x020000000002);
    bench.host("10.0.1.2", kOut, 0x020000000202);
    for (std::uint32_t session = 1; session <= kSessions + 1; ++session) {
      for (std::uint32_t rank = 0; rank < kLayers; ++rank) {
        bench.subscribe(group(session, rank), mgid(session, rank), {kOut});
        const std::uint32_t first = 512 + 4 * mgid(session, rank);
        if (session <= kSessions) bench.group_columns(group(session, rank), first);
      }
    }
    bench.limit(kOut, 8e6, 0);
  }
  static std::uint32_t mgid(std::uint32_t session, std::uint32_t rank) {
    return session * 8 + rank;
  }
  void send(std::uint32_t session, std::uint32_t rank, int count = 1) {
    for (int i = 0; i < count; ++i) bench.receive(kUp, layer_packet(session, rank));
  }
  void send_tcp(int count = 1) {
    Packet packet;
    packet.protocol = kTcp;
    packet.payload.resize(980);
    for (int i = 0; i < count; ++i) bench.receive(kUp, packet);
  }
  PortAccounts accounts(std::uint32_t port = kOut) const {
    return read(bench.engine_switch(), port);
  }
  std::vector<SessionCounts> sessions(std::uint32_t port = kOut) const {
    return accounts(port).sessions;
  }
};

TEST_F(Accounts, NothingCameNothingIsThere) {
  EXPECT_TRUE(accounts().by_program);
  EXPECT_THAT(sessions(), IsEmpty());
  EXPECT_EQ(accounts().total, Counts());
  EXPECT_TRUE(accounts().balanced());
}

TEST_F(Accounts, WhatTheQueueDropsIsItsAlone) {
  bench.limit(kOut, 8e6, 3);
  send(1, 0, 2);  // one on the link, one waiting
  send(1, 1);
  send_tcp(3);  // there is room for one more
  send(2, 0);
  EXPECT_THAT(sessions(),
              ElementsAre(SessionCounts{-1, -1, {.entered = 3, .queue_drops = 2, .waiting = 1}},
                          SessionCounts{1, 0, {.entered = 2, .waiting = 1, .left = 1}},
                          SessionCounts{1, 1, {.entered = 1, .waiting = 1}},
                          SessionCounts{2, 0, {.entered = 1, .queue_drops = 1}}));
  EXPECT_EQ(accounts().total, (Counts{.entered = 7, .queue_drops = 3, .waiting = 3, .left = 1}));
  bench.finish();
  EXPECT_THAT(sessions(),
              ElementsAre(SessionCounts{-1, -1, {.entered = 3, .queue_drops = 2, .left = 1}},
                          SessionCounts{1, 0, {.entered = 2, .left = 2}},
                          SessionCounts{1, 1, {.entered = 1, .left = 1}},
                          SessionCounts{2, 0, {.entered = 1, .queue_drops = 1}}));
}

TEST_F(Accounts, DropTailOfTheProgramIsAPolicy) {
  bench.drop_tail(kOut, 2);
  send(1, 0, 3);  // one on the link, two waiting
  send(1, 1, 2);  // they find two
  send_tcp();
  bench.finish();
  EXPECT_THAT(sessions(), ElementsAre(SessionCounts{-1, -1, {.entered = 1, .policy_drops = 1}},
                                      SessionCounts{1, 0, {.entered = 3, .left = 3}},
                                      SessionCounts{1, 1, {.entered = 2, .policy_drops = 2}}));
  EXPECT_EQ(policy(bench.engine_switch(), kOut), "drop_tail");
  EXPECT_EQ(policy(bench.engine_switch(), kUp), "");
}

TEST_F(Accounts, QueueAndPolicyEachCountTheirDrops) {
  bench.limit(kOut, 8e6, 4);
  bench.drop_tail(kOut, 2);
  send(1, 0, 6);
  EXPECT_THAT(sessions(), ElementsAre(SessionCounts{
                              1, 0, {.entered = 6, .queue_drops = 1, .waiting = 4, .left = 1}}));
  bench.finish();
  EXPECT_THAT(sessions(),
              ElementsAre(SessionCounts{
                  1, 0, {.entered = 6, .queue_drops = 1, .left = 3, .policy_drops = 2}}));
}

TEST_F(Accounts, MarksAreThisPortsAndOfThoseThatLeft) {
  bench.threshold_marking(kOut, 1);
  send(1, 0, 4);  // the last of them finds two
  send(1, 1, 2);
  Packet marked = layer_packet(2, 0);
  marked.ecn = kCe;
  bench.receive(kUp, marked);
  bench.finish();
  EXPECT_THAT(sessions(), ElementsAre(SessionCounts{1, 0, {.entered = 4, .left = 4, .marked = 1}},
                                      SessionCounts{1, 1, {.entered = 2, .left = 2, .marked = 2}},
                                      SessionCounts{2, 0, {.entered = 1, .left = 1}}));
}

TEST_F(Accounts, ReplicasArePrunedWhereTheyCameIn) {
  const std::vector<engine::Replica> ports = {{kUp, 0}, {kOut, 0}};
  ASSERT_TRUE(bench.engine_switch().modify_multicast_group(mgid(1, 0), ports).ok());
  send(1, 0, 2);
  bench.finish();
  EXPECT_THAT(sessions(kUp), ElementsAre(SessionCounts{1, 0, {.entered = 2, .pruned = 2}}));
  EXPECT_THAT(sessions(kOut), ElementsAre(SessionCounts{1, 0, {.entered = 2, .left = 2}}));
}

TEST_F(Accounts, AGroupWithoutColumnsIsWithTheRest) {
  send(kSessions + 1, 0, 2);
  send_tcp();
  EXPECT_THAT(sessions(),
              ElementsAre(SessionCounts{-1, -1, {.entered = 3, .waiting = 2, .left = 1}}));
}

TEST_F(Accounts, WhatCameInAndWasNotPassedOn) {
  send(1, 0);
  send(1, kLayers, 2);
  Packet lost;
  lost.dst = address("10.0.9.9");
  bench.receive(kUp, lost);
  lost.ttl = 1;
  bench.receive(kUp, lost);
  lost.checksum = 1;
  bench.receive(kUp, lost);
  EXPECT_EQ(
      accounts(kUp).ingress,
      (IngressCounts{.forwarded = 1, .invalid = 1, .expired = 1, .no_group = 2, .no_route = 1}));
  EXPECT_EQ(accounts(kOut).ingress, IngressCounts());
}

// A summary is made from a copy of a data packet, but no longer counts as a packet of the session.
TEST_F(Accounts, SummariesAreFeedback) {
  bench.aggregate(1, {});
  Packet data = layer_packet(1, 0);
  data.payload[8 + 23] = std::byte{7};     // fb_req
  data.payload[8 + 30] = std::byte{0xc3};  // max_rtt_us: 49920
  bench.receive(kUp, data);
  bench.receive(kOut, feedback_packet({1, 20, 7, 0, 0, {{0, 1, 0, 1000, 1000, 1}}}));
  bench.advance(100 * kMillisecond);
  bench.receive(kUp, data);
  bench.finish();
  ASSERT_EQ(bench.counter("summaries", Aggregator{}.slot).packets, 1u);
  EXPECT_THAT(sessions(kUp), ElementsAre(SessionCounts{-1, -1, {.entered = 1, .left = 1}}));
  EXPECT_THAT(sessions(kOut), ElementsAre(SessionCounts{1, 0, {.entered = 2, .left = 2}}));
}

TEST_F(Accounts, APacketOfTheControllersIsNoSessions) {
  bench.receive(kCpuPort, with_port(kOut, layer_packet(1, 2).bytes()));
  bench.receive(kCpuPort, with_port(kOut, Packet{}.bytes()));
  bench.receive(kCpuPort, with_port(kOut, Frame(40)));
  bench.finish();
  EXPECT_THAT(sessions(), ElementsAre(SessionCounts{-1, -1, {.entered = 3, .left = 3}}));
}

TEST_F(Accounts, ANewProgramBeginsAnew) {
  send(1, 0, 3);
  std::ifstream file(TIERCAST_JSON);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  bench.engine_switch().set_program(engine::Program::load(text, TIERCAST_JSON));
  EXPECT_THAT(sessions(), IsEmpty());
}

// What RED on arrival drops and marks counts as the policy's. Marked packets count when they leave.
TEST_F(Accounts, RedOnArrivalIsAPolicy) {
  engine::PortConfig config = bench.engine_switch().port_config(kOut).value();
  config.red = {.min_th = 1, .max_th = 3, .weight = 1, .ecn = true, .mark_above_max = true};
  EXPECT_TRUE(bench.engine_switch().set_port(kOut, config, bench.now()).ok());
  EXPECT_EQ(policy(bench.engine_switch(), kOut), "red");
  send(1, 0, 4);  // ECT: found -, 0, 1 and 2, which is the first above the threshold
  send(1, 1, 2);  // found 3 and 4: marked
  send_tcp(5);    // found 5: not ECT, dropped
  EXPECT_EQ(accounts().total, (Counts{.entered = 11, .waiting = 5, .left = 1, .policy_drops = 5}));
  bench.finish();
  EXPECT_THAT(sessions(), ElementsAre(SessionCounts{-1, -1, {.entered = 5, .policy_drops = 5}},
                                      SessionCounts{1, 0, {.entered = 4, .left = 4}},
                                      SessionCounts{1, 1, {.entered = 2, .left = 2, .marked = 2}}));
  EXPECT_TRUE(accounts().balanced());
  std::size_t marked = 0;
  for (const Frame& frame : bench.sent_on(kOut)) {
    EXPECT_TRUE(checksum_right(frame));
    marked += (std::to_integer<unsigned>(frame[kEthernetBytes + 1]) & 3) == kCe;
  }
  EXPECT_EQ(marked, 2u);
}

// Copies of a packet share its frame. A mark at one port must not appear at another.
TEST_F(Accounts, RedOnArrivalMarksItsPortsCopyAlone) {
  constexpr std::uint32_t kOther = 3;
  EXPECT_TRUE(
      bench.engine_switch().modify_multicast_group(mgid(1, 0), {{kOut, 0}, {kOther, 0}}).ok());
  engine::PortConfig config = bench.engine_switch().port_config(kOut).value();
  config.red = {.min_th = 0, .max_th = 1, .weight = 1, .ecn = true, .mark_above_max = true};
  EXPECT_TRUE(bench.engine_switch().set_port(kOut, config, bench.now()).ok());
  send(1, 0, 6);
  bench.finish();
  const auto marked = [&](std::uint32_t port) {
    std::size_t count = 0;
    for (const Frame& frame : bench.sent_on(port)) {
      count += (std::to_integer<unsigned>(frame[kEthernetBytes + 1]) & 3) == kCe;
    }
    return count;
  };
  EXPECT_EQ(marked(kOut), 3u);  // that found 2, 3, 4
  EXPECT_EQ(marked(kOther), 0u);
  EXPECT_EQ(accounts(kOut).total, (Counts{.entered = 6, .left = 6, .marked = 3}));
  EXPECT_EQ(accounts(kOther).total, (Counts{.entered = 6, .left = 6}));
}

// Random traffic of every kind through random policies, links and trees. At any instant, at every
// port and for every layer, nothing is counted twice or missed.
TEST_F(Accounts, BalanceAtAnyInstant) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t bound) {
      return static_cast<std::uint32_t>(random() % bound);
    };
    const auto some_port = [&] { return 1 + below(4); };
    bench.aggregate(1, {});
    const auto change_link = [&](std::uint32_t port) {
      engine::PortConfig config;
      config.rate_bps = below(10) == 0 ? 0 : 1e6 * (1 + below(8));
      config.queue_packets = below(2) * (1 + below(20));
      config.queue_bytes = below(3) == 0 ? 6000u : 0u;
      config.delay_ns = below(20) * kMillisecond;
      config.rx_delay_ns = below(3) * kMillisecond;
      config.fair_queueing = below(3) == 0;
      config.layered = config.fair_queueing && below(2) == 0;
      config.overhead_bytes = -static_cast<int>(kEthernetBytes);
      if (below(3) == 0) {
        config.red = {.min_th = 1,
                      .max_th = 4,
                      .weight = 0.2,
                      .gentle = below(2) == 0,
                      .ecn = below(2) == 0,
                      .mark_above_max = below(2) == 0};
      }
      for (engine::WireConfig* wire : {&config.wire, &config.rx_wire}) {
        if (below(2) == 0) continue;
        wire->up = below(4) != 0;
        wire->loss = {.to_bad = 0.1, .to_good = 0.3, .in_bad = 0.8, .in_good = 0.01};
        wire->duplicate = 0.1 * below(3);
        wire->reorder = 0.1 * below(3);
        wire->reorder_delay_ns = 3 * kMillisecond;
        wire->jitter_ns = below(4) * kMillisecond;
      }
      EXPECT_TRUE(bench.engine_switch().set_port(port, config, bench.now()).ok());
    };
    const auto change_policy = [&](std::uint32_t port) {
      switch (below(6)) {
        case 0: return bench.no_marking(port);
        case 1: return bench.marking(port, below(4) * 256);
        case 2: return bench.threshold_marking(port, below(6));
        case 3: return bench.drop_tail(port, 1 + below(8));
        case 4: return bench.red(port, {.min_th = 1, .max_th = 4, .gentle = true, .ecn = false});
        default: return bench.red(port, {.min_th = 1, .max_th = 4, .mark_above_max = true});
      }
    };
    const auto change_tree = [&] {
      std::vector<engine::Replica> ports;
      for (std::uint32_t port = 1; port <= 4; ++port) {
        if (below(2) == 0) ports.push_back({port, 0});
      }
      const std::uint32_t group = mgid(1 + below(kSessions + 1), below(kLayers));
      EXPECT_TRUE(bench.engine_switch().modify_multicast_group(group, ports).ok());
    };
    const auto packet = [&]() -> Packet {
      switch (below(8)) {
        case 0: {
          Packet tcp;
          tcp.protocol = kTcp;
          tcp.dst = address(below(2) == 0 ? "10.0.1.2" : "10.0.0.2");
          tcp.ecn = below(2) == 0 ? kEct0 : kNotEct;
          return tcp;
        }
        case 1: return igmp_report(group(1, below(kLayers)));
        case 2:
          return feedback_packet({1, 20 + below(3), 1 + below(4), 0, 0, {{0, 1, 0, 9, 9, 1}}});
        default: {
          Packet data = layer_packet(1 + below(kSessions + 1), below(kLayers + 1));
          data.payload[8 + 23] = static_cast<std::byte>(1 + below(4));
          data.payload[8 + 30] = std::byte{0x30};
          return data;
        }
      }
    };
    for (std::uint32_t port = 1; port <= 4; ++port) change_link(port);
    for (int step = 0; step < 4000; ++step) {
      bench.advance(below(3) * below(500) * kMicrosecond);
      if (below(40) == 0) change_link(some_port());
      if (below(40) == 0) change_policy(some_port());
      if (below(40) == 0) change_tree();
      if (below(100) == 0) bench.top_group(some_port(), 1 + below(3), below(kLayers));
      Packet next = packet();
      if (below(20) == 0) next.ttl = 1;
      if (below(20) == 0) next.checksum = static_cast<std::uint16_t>(random());
      Frame frame = next.bytes();
      if (below(20) == 0) frame.resize(below(static_cast<std::uint32_t>(frame.size())));
      if (below(20) == 0) {
        bench.receive(kCpuPort, with_port(some_port(), frame));
      } else {
        bench.receive(some_port(), frame);
      }
      for (std::uint32_t port = 1; port <= 4; ++port) {
        const PortAccounts all = accounts(port);
        for (const SessionCounts& one : all.sessions) {
          ASSERT_TRUE(one.counts.balanced())
              << "step " << step << ", port " << port << ": " << ::testing::PrintToString(one);
        }
        const engine::PortStats stats = bench.engine_switch().stats(port);
        ASSERT_EQ(all.total.waiting, stats.queue_packets) << step;
        ASSERT_EQ(all.total.policy_drops + all.total.pruned,
                  stats.egress_dropped_packets + stats.early_dropped_packets)
            << step;
        ASSERT_EQ(all.total.left + all.total.duplicated,
                  stats.tx_packets + all.total.link_losses + stats.on_wire_packets)
            << "step " << step << ", port " << port;
        ASSERT_EQ(all.total.link_losses, stats.lost_packets) << step;
        // What the traffic manager sees of the program, which a program without counters is judged
        // by, is what the program counts.
        Counts seen;
        for (const engine::LabelCounts& label : bench.engine_switch().label_counts(port)) {
          seen.left += label.served - label.not_sent;
          seen.marked += label.egress_marked + label.marked;
          seen.policy_drops += label.not_sent + label.early_dropped;
        }
        ASSERT_EQ(seen.left, all.total.left) << step;
        ASSERT_EQ(seen.marked, all.total.marked) << step;
        ASSERT_EQ(seen.policy_drops, all.total.policy_drops + all.total.pruned) << step;
        ASSERT_EQ(all.total.down_drops, stats.down_dropped_packets) << step;
        ASSERT_EQ(all.total.duplicated, stats.duplicated_packets) << step;
      }
    }
    bench.finish();
    for (std::uint32_t port = 1; port <= 4; ++port) {
      const PortAccounts all = accounts(port);
      EXPECT_EQ(all.total.left + all.total.duplicated,
                bench.engine_switch().stats(port).tx_packets + all.total.link_losses);
      EXPECT_EQ(all.total.waiting, 0u);
    }
  }
  // Each of these must have happened, otherwise the test shows nothing.
  const Counts seen = accounts().total;
  for (const std::uint64_t count :
       {seen.left, seen.marked, seen.queue_drops, seen.policy_drops, seen.pruned, seen.down_drops,
        seen.link_losses, seen.duplicated}) {
    EXPECT_GT(count, 100u) << ::testing::PrintToString(SessionCounts{-1, -1, seen});
  }
}

}  // namespace
}  // namespace tiercast::accounts
