// MDP-CC on the testkit (PROTOCOLS 13.6): shares of a bottleneck, marks, the worst path.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "protocols/schemes/mdpcc/sender.h"
#include "protocols/testkit/session.h"
#include "protocols/testkit/tcp.h"

namespace tiercast::testkit {
namespace {

// Node 1 is behind the bottleneck (PROTOCOLS 6.7: 1 Mbit/s, edges 10 Mbit/s); hosts are at 2, 3,
// ...
struct Bottleneck {
  Bottleneck(unsigned hosts, const LinkConfig& bottleneck)
      : tree(simulator, parents(hosts), edge(), Duration::milliseconds(10)) {
    tree.configure(1, bottleneck);
  }
  static std::vector<Tree::Node> parents(unsigned hosts) {
    std::vector<Tree::Node> parents(hosts + 2, 1);
    parents[0] = parents[1] = 0;
    return parents;
  }
  static LinkConfig edge() {
    LinkConfig link;
    link.rate = Rate::mbit_per_second(10);
    link.delay = Duration::milliseconds(5);
    link.marking = false;
    return link;
  }
  static LinkConfig link(double mbit, std::uint32_t queue) {
    LinkConfig link = edge();
    link.rate = Rate::mbit_per_second(mbit);
    link.delay = Duration::milliseconds(20);
    link.queue = {queue, 0};
    return link;
  }
  Simulator simulator;
  Tree tree;
};

SessionOptions options(std::vector<Tree::Node> receivers, std::uint64_t seed = 1) {
  SessionOptions options;
  options.scheme = "mdpcc";
  options.layers = 1;
  options.receivers = std::move(receivers);
  options.seed = seed;
  options.jitter = Duration::milliseconds(1);
  return options;
}

const mdpcc::Sender& core(Session& session) {
  return dynamic_cast<const mdpcc::Sender&>(session.sender().core());
}

double mbit(const ReceiverCounters& now, const ReceiverCounters& then, double seconds) {
  return static_cast<double>(now.bytes - then.bytes) * 8e-6 / seconds;
}

TEST(MdpccSession, AloneFillsTheLink) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    Bottleneck net(3, Bottleneck::link(1, 25));
    Session session(net.simulator, net.tree, options({2, 3, 4}, seed));
    session.start();
    net.simulator.run_for(Duration::seconds(100));
    const ReceiverCounters then = session.receiver(0).counters();
    net.simulator.run_for(Duration::seconds(100));
    const double share = mbit(session.receiver(0).counters(), then, 100);
    EXPECT_GE(share, 0.85);  // PROTOCOLS 13.6
    EXPECT_LE(share, 1.0);
  }
}

// Shares of 1 Mbit/s between one session and k TCP flows, and later between it and one of them.
struct Shares {
  double mdpcc = 0;
  double least_tcp = 0;  // Mbit/s
  double after = 0;      // with one TCP flow remaining
};

Shares share_with_tcp(unsigned k, std::uint64_t seed) {
  Bottleneck net(2 + k, Bottleneck::link(1, 25));
  Session session(net.simulator, net.tree, options({2, 3}, seed));
  session.start();
  std::vector<std::unique_ptr<TcpFlow>> flows;
  std::vector<std::uint64_t> delivered;
  Rng rng(seed);
  for (unsigned i = 0; i < k; ++i) {
    const auto session_number = static_cast<std::uint16_t>(100 + i);
    flows.push_back(std::make_unique<TcpFlow>(net.simulator, net.tree, 0, 4 + i, session_number));
    net.simulator.at(Time::zero() + Duration::seconds(5 + 5 * rng.uniform()),
                     [flow = flows.back().get()] { flow->start(); });
  }
  net.simulator.run_for(Duration::seconds(50));
  ReceiverCounters then = session.receiver(0).counters();
  for (const auto& flow : flows) delivered.push_back(flow->delivered_packets());
  net.simulator.run_for(Duration::seconds(200));
  Shares shares;
  shares.mdpcc = mbit(session.receiver(0).counters(), then, 200);
  shares.least_tcp = 1e9;
  for (unsigned i = 0; i < k; ++i) {
    shares.least_tcp =
        std::min(shares.least_tcp,
                 static_cast<double>(flows[i]->delivered_packets() - delivered[i]) * 8e-3 / 200);
  }
  for (unsigned i = 1; i < k; ++i) flows[i]->stop();
  net.simulator.run_for(Duration::seconds(50));
  then = session.receiver(0).counters();
  net.simulator.run_for(Duration::seconds(200));
  shares.after = mbit(session.receiver(0).counters(), then, 200);
  return shares;
}

TEST(MdpccSession, SharesWithTcpAndReturns) {
  constexpr unsigned kSeeds = 3;
  for (unsigned k = 1; k <= 4; ++k) {
    SCOPED_TRACE(k);
    const double fair = 1.0 / (k + 1);
    double mean = 0, mean_after = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const Shares shares = share_with_tcp(k, seed);
      std::printf("%u TCP, seed %d: %.3f of fair, least TCP %.3f of fair, then %.3f beside one\n",
                  k, static_cast<int>(seed), shares.mdpcc / fair, shares.least_tcp / fair,
                  shares.after);
      mean += shares.mdpcc / kSeeds;
      mean_after += shares.after / kSeeds;
      EXPECT_GE(shares.least_tcp, 0.5 * fair);
    }
    // PROTOCOLS 13.6: 0.6 to 1.6 of the fair share, and within 25 % of half at the end.
    EXPECT_GE(mean, 0.6 * fair);
    EXPECT_LE(mean, 1.6 * fair);
    EXPECT_NEAR(mean_after, 0.5, 0.125);
  }
}

// MDP-CC, ECN simulation results (figure 4): with RED that marks there is no loss after startup,
// and the shares are about the same. A FIFO queue has losses all the time.
TEST(MdpccSession, MarksReplaceLoss) {
  for (const bool ecn : {false, true}) {
    SCOPED_TRACE(ecn);
    LinkConfig link = Bottleneck::link(1, ecn ? 100 : 25);
    if (ecn) {
      link.red.emplace();
      link.red->ecn = true;
    }
    Bottleneck net(3, link);
    Session session(net.simulator, net.tree, options({2, 3}));
    TcpConfig tcp;
    tcp.ecn = ecn;
    TcpFlow flow(net.simulator, net.tree, 0, 4, 100, tcp);
    session.start();
    net.simulator.at(Time::zero() + Duration::seconds(5), [&] { flow.start(); });
    net.simulator.run_for(Duration::seconds(60));
    const ReceiverCounters then = session.receiver(0).counters();
    const Link::Stats link_then = net.tree.down(1).stats();
    net.simulator.run_for(Duration::seconds(300));
    const ReceiverCounters now = session.receiver(0).counters();
    const Link::Stats& link_now = net.tree.down(1).stats();
    const double lost =
        static_cast<double>(now.lost - then.lost) / static_cast<double>(now.packets - then.packets);
    if (ecn) {
      EXPECT_LE(lost, 0.001);  // PROTOCOLS 13.6
      EXPECT_GT(now.marked, then.marked + 20);
    } else {
      EXPECT_GT(lost, 0.001);
      EXPECT_GT(link_now.dropped,
                link_then.dropped + now.lost - then.lost);  // includes TCP's losses
    }
    EXPECT_GE(mbit(now, then, 300), 0.5 * 0.6);
    EXPECT_LE(mbit(now, then, 300), 0.5 * 1.6);
  }
}

// Two branches of receivers; the bottleneck moves from one to the other. With up to three receivers
// per branch, both branches have representatives. With twenty, all five are at the old bottleneck,
// and the new one is found by a report that had to wait: on average within five GRTTs, at worst
// after a back-off and a pause of K = 4 GRTTs each.
TEST(MdpccSession, TheWorstPathIsFoundWhenItMoves) {
  for (const unsigned each : {2u, 3u, 20u}) {
    const unsigned seeds = each < 20 ? 3 : 12;
    double mean = 0;  // GRTTs
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      SCOPED_TRACE(testing::Message() << each << " receivers a branch, seed " << seed);
      std::vector<Tree::Node> parents(3 + 2 * each, 1);
      parents[1] = parents[2] = 0;
      std::vector<Tree::Node> receivers;
      for (Tree::Node i = 3; i < parents.size(); ++i) {
        if (i >= 3 + each) parents[i] = 2;
        receivers.push_back(i);
      }
      Simulator simulator;
      Tree tree(simulator, parents, Bottleneck::edge(), Duration::milliseconds(10));
      tree.configure(1, Bottleneck::link(1, 25));
      tree.configure(2, Bottleneck::link(3, 25));
      Session session(simulator, tree, options(receivers, seed));
      session.start();
      simulator.run_for(Duration::seconds(60));
      const mdpcc::Representatives& list = core(session).representatives();
      ASSERT_NE(list.clr(), nullptr);
      EXPECT_LT(list.clr()->id, 3 + each);
      EXPECT_LE(list.size(), 5u);
      tree.set_rate(1, Rate::mbit_per_second(3));
      tree.set_rate(2, Rate::mbit_per_second(0.5));
      const std::uint64_t dropped = tree.down(2).stats().dropped;
      while (tree.down(2).stats().dropped == dropped) simulator.run_for(Duration::milliseconds(1));
      // PROTOCOLS 13.6: five GRTTs from the first loss on.
      const Time lost_at = simulator.now();
      const Duration grtt = core(session).grtt();
      while (list.clr()->id < 3 + each && simulator.now() < lost_at + Duration::seconds(20)) {
        simulator.run_for(Duration::milliseconds(1));
      }
      std::printf("%u a branch, seed %d: %.1f GRTTs of %.0f ms\n", each, static_cast<int>(seed),
                  (simulator.now() - lost_at) / grtt, grtt.seconds() * 1e3);
      EXPECT_LE((simulator.now() - lost_at) / grtt, each < 20 ? 5 : 10);
      mean += (simulator.now() - lost_at) / grtt / seeds;
      simulator.run_for(Duration::seconds(40));
      EXPECT_GE(list.clr()->id, 3 + each);
    }
    EXPECT_LE(mean, 5);
  }
}

// No drop to zero: the rate with 64 receivers behind one bottleneck equals that with one.
TEST(MdpccSession, ManyReceiversBehindOneLinkAreAsOne) {
  for (const unsigned receivers : {1u, 8u, 64u}) {
    SCOPED_TRACE(receivers);
    Bottleneck net(receivers, Bottleneck::link(1, 25));
    std::vector<Tree::Node> nodes;
    for (Tree::Node i = 0; i < receivers; ++i) nodes.push_back(2 + i);
    Session session(net.simulator, net.tree, options(nodes));
    session.start();
    net.simulator.run_for(Duration::seconds(40));
    const ReceiverCounters then = session.receiver(0).counters();
    const std::uint64_t reports = core(session).reports();
    net.simulator.run_for(Duration::seconds(60));
    EXPECT_GE(mbit(session.receiver(0).counters(), then, 60), 0.85);
    // Five representatives answer each probe; all others together answer about once in K GRTTs.
    const double per_second = static_cast<double>(core(session).reports() - reports) / 60;
    std::printf("%u receivers: %.1f reports/s, GRTT %.0f ms\n", receivers, per_second,
                core(session).grtt().seconds() * 1e3);
    EXPECT_LT(per_second, 12 / core(session).grtt().seconds());
  }
}

// A CLR that leaves or dies does not hold up the session.
TEST(MdpccSession, GoesOnWithoutItsSlowestReceiver) {
  for (const bool dies : {false, true}) {
    SCOPED_TRACE(dies);
    Simulator simulator;
    Tree tree(simulator, {0, 0, 0, 1, 2}, Bottleneck::edge(), Duration::milliseconds(10));
    tree.configure(1, Bottleneck::link(0.2, 10));
    tree.configure(2, Bottleneck::link(2, 25));
    Session session(simulator, tree, options({3, 4}));
    session.start();
    simulator.run_for(Duration::seconds(60));
    EXPECT_EQ(core(session).representatives().clr()->id, 3u);
    EXPECT_LT(core(session).rate().mbit_per_second(), 0.4);
    if (dies) {
      session.receiver(0).die();
      tree.leave(3, 1, 0);  // its host's membership times out
    } else {
      session.receiver(0).stop();
    }
    simulator.run_for(Duration::seconds(60));
    EXPECT_EQ(core(session).representatives().clr()->id, 4u);
    const ReceiverCounters then = session.receiver(1).counters();
    simulator.run_for(Duration::seconds(60));
    EXPECT_GE(mbit(session.receiver(1).counters(), then, 60), 0.85 * 2);
  }
}

TEST(MdpccSession, TheOptionsShareToo) {
  for (const char* option : {"mdpcc.decrease_mode=1", "mdpcc.min_timeout=200ms"}) {
    SCOPED_TRACE(option);
    Bottleneck net(2, Bottleneck::link(1, 25));
    SessionOptions with = options({2});
    with.set = {option};
    Session session(net.simulator, net.tree, with);
    TcpFlow flow(net.simulator, net.tree, 0, 3, 100);
    session.start();
    net.simulator.at(Time::zero() + Duration::seconds(5), [&] { flow.start(); });
    net.simulator.run_for(Duration::seconds(50));
    const ReceiverCounters then = session.receiver(0).counters();
    net.simulator.run_for(Duration::seconds(200));
    const double share = mbit(session.receiver(0).counters(), then, 200);
    EXPECT_GE(share, 0.5 * 0.6);
    EXPECT_LE(share, 0.5 * 1.6);
  }
}

}  // namespace
}  // namespace tiercast::testkit
