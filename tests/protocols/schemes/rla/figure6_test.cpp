// RLA beside TCP on the topology of its paper (RLA 5, figure 6; PROTOCOLS 5.7 and 13.4), for 3000 s
// as in the paper, of which the last 2900 are measured. The bands are those of PROTOCOLS 13.4.
// The paper's TCP is SACK in ns-2; the testkit's is NewReno.
#include "tests/protocols/schemes/rla/figure6.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tiercast::testkit {
namespace {

constexpr double kReceivers = 27;
constexpr int kSettling = 100;  // s
constexpr int kMeasured = 2900;

// What holds in every case (RLA 5.1).
void expect_the_laws(const Figure6::Result& r) {
  // Each of 27 troubled receivers is listened to once in 27 times. With about 800 cuts, the
  // binomial standard deviation is 3.5 %.
  EXPECT_NEAR(r.cuts * kReceivers / r.signals, 1, 0.1);
  EXPECT_LE(r.forced, 3);
}

// cwnd = rate RTT. Not where each leaf loses by itself: the RTT is of packets that were sent once,
// and a tenth of them are repeated there, those that met the longest queues. The ratio is 1.06 to
// 1.08 then, though the packets out are cwnd's (22.8 of 23.2).
void expect_a_full_window(const Figure6::Result& r) {
  EXPECT_NEAR(r.cwnd / (r.rate * r.rtt), 1, 0.05);
}

TEST(RlaFigure6, RedAtTheSharedLink) {
  Figure6Options options;
  options.bottleneck_level = 1;
  // The testkit's hosts answer without delay. So a packet that all have acknowledged would always
  // be followed by the next one into the queue that their TCPs have just filled.
  options.set = {"rla.overhead=0.005"};
  Figure6 figure(options);
  figure.simulator.run_for(Duration::seconds(kSettling));
  const Figure6::Result r = figure.measure(kMeasured)[0];
  expect_the_laws(r);
  expect_a_full_window(r);
  EXPECT_NEAR(r.rate, 118.0, 0.25 * 118.0);  // figure 9, case 1
  EXPECT_GT(r.rate / r.worst_tcp, 0.8);      // 1.39 in the paper
  EXPECT_LT(r.rate / r.worst_tcp, 2.2);
}

TEST(RlaFigure6, RedAtEachLeaf) {
  Figure6Options options;
  options.bottleneck_level = 4;
  options.set = {"rla.overhead=0.005"};
  Figure6 figure(options);
  figure.simulator.run_for(Duration::seconds(kSettling));
  const Figure6::Result r = figure.measure(kMeasured)[0];
  expect_the_laws(r);
  // Theorem I: between a third of TCP's rate and sqrt(3 n) times it. PROTOCOLS 13.4 is stricter:
  // 0.8 to 2.2.
  EXPECT_GT(r.rate / r.worst_tcp, 0.8);
  EXPECT_LT(r.rate / r.worst_tcp, 2.2);
}

TEST(RlaFigure6, DropTailAtTheSharedLink) {
  Figure6Options options;
  options.bottleneck_level = 1;
  options.red = false;
  options.set = {"rla.overhead=0.000357"};  // a packet at 28 x 100 per second (RLA 3.1)
  Figure6 figure(options);
  figure.simulator.run_for(Duration::seconds(kSettling));
  const Figure6::Result r = figure.measure(kMeasured)[0];
  expect_the_laws(r);
  expect_a_full_window(r);
  EXPECT_NEAR(r.rate, 144.1, 0.25 * 144.1);  // figure 7, case 1
  EXPECT_GT(r.rate / r.worst_tcp, 0.8);      // 1.76 in the paper
  EXPECT_LT(r.rate / r.worst_tcp, 2.2);
}

TEST(RlaFigure6, TwoSessionsShareEqually) {
  Figure6Options options;
  options.bottleneck_level = 4;
  options.red = false;
  options.sessions = 2;
  options.set = {"rla.overhead=0.0033"};
  Figure6 figure(options);
  figure.simulator.run_for(Duration::seconds(kSettling));
  const auto r = figure.measure(kMeasured);
  // 65.1 and 65.9 in the paper. How much they take together depends on TCP: 82 each beside the
  // testkit's, 61 in ns-3 beside ns-2's with SACK, 67 without.
  EXPECT_NEAR(r[0].rate / r[1].rate, 1, 0.1);
}

TEST(RlaFigure6, ThreeReceiversBehindOneLinkShareItWithTcp) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    Simulator simulator;
    LinkConfig link;
    link.marking = false;
    link.delay = Duration::milliseconds(20);
    Tree tree(simulator, {0, 0, 1, 1, 1, 1}, link, Duration::milliseconds(1));
    link.rate = Rate::mbit_per_second(2);
    link.queue = {50, 0};
    tree.configure(1, link);
    SessionOptions options;
    options.scheme = "rla";
    options.layers = 1;
    options.jitter = Duration::milliseconds(1);
    options.seed = seed;
    options.receivers = {2, 3, 4};
    Session session(simulator, tree, options);
    TcpFlow tcp(simulator, tree, 0, 5, 1000);
    session.start();
    tcp.start();
    simulator.run_for(Duration::seconds(20));
    const std::uint64_t own_then = session.receiver(0).counters().packets;
    const std::uint64_t tcp_then = tcp.delivered_packets();
    simulator.run_for(Duration::seconds(70));
    const auto own = static_cast<double>(session.receiver(0).counters().packets - own_then);
    const auto its = static_cast<double>(tcp.delivered_packets() - tcp_then);
    // Three signals at once, each listened to once in three: on average the window keeps (5/6)^3 =
    // 0.58 of itself, and sometimes all of it, where TCP's keeps a half.
    EXPECT_GT(own / its, 0.5);
    EXPECT_LT(own / its, 2);
  }
}

TEST(RlaFigure6, OneReceiverOrManyGetAboutTheSame) {
  // No drop to zero, although all receivers are behind one link, where they lose packets together.
  const auto rate = [](unsigned receivers) {
    Simulator simulator;
    LinkConfig link;
    link.marking = false;
    std::vector<Tree::Node> parents{0, 0};
    for (unsigned i = 0; i < receivers; ++i) parents.push_back(1);
    Tree tree(simulator, parents, link, Duration::milliseconds(1));
    link.rate = Rate::mbit_per_second(2);
    link.delay = Duration::milliseconds(20);
    link.queue = {25, 0};
    tree.configure(1, link);
    tree.up(1).set_rate(Rate::zero());
    SessionOptions options;
    options.scheme = "rla";
    options.layers = 1;
    options.jitter = Duration::milliseconds(1);
    for (unsigned i = 0; i < receivers; ++i) options.receivers.push_back(2 + i);
    Session session(simulator, tree, options);
    TcpFlow tcp(simulator, tree, 0, 1, 1000);
    session.start();
    tcp.start();
    simulator.run_for(Duration::seconds(20));
    const auto& core = dynamic_cast<const rla::Sender&>(session.sender().core());
    const std::uint64_t then = core.counts().acknowledged;
    simulator.run_for(Duration::seconds(100));
    return static_cast<double>(core.counts().acknowledged - then) / 100;
  };
  const double one = rate(1);
  EXPECT_NEAR(one, 125, 0.5 * 125);  // half of 250 packets/s beside one TCP
  for (const unsigned n : {2u, 8u, 64u}) {
    SCOPED_TRACE(n);
    EXPECT_GT(rate(n) / one, 0.7);
    EXPECT_LT(rate(n) / one, 1.6);
  }
}

}  // namespace
}  // namespace tiercast::testkit
