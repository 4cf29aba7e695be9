// PGMCC's sessions: their share beside TCP, the election of the slowest receiver, and hostile
// networks.
#include <gtest/gtest.h>

#include <cmath>

#include "protocols/schemes/pgmcc/receiver.h"
#include "protocols/schemes/pgmcc/sender.h"
#include "protocols/testkit/session.h"
#include "protocols/testkit/tcp.h"
#include "tests/protocols/rigs/lossy_group.h"

namespace tiercast::testkit {
namespace {

// Receivers, each behind a link of its own, all behind one without a limit. The sender is at node
// 0.
struct Star {
  Star(const std::vector<double>& mbit, std::uint64_t seed, double delay_ms = 20,
       std::vector<std::string> set = {})
      : tree(simulator, parents(mbit.size()), LinkConfig{}, Duration::milliseconds(1)) {
    SessionOptions options;
    options.scheme = "pgmcc";
    options.layers = 1;
    options.seed = seed;
    options.jitter = Duration::milliseconds(1);
    options.set = std::move(set);
    for (std::size_t i = 0; i < mbit.size(); ++i) {
      LinkConfig link;
      link.marking = false;
      link.rate = Rate::mbit_per_second(mbit[i]);
      link.delay = Duration::milliseconds(static_cast<std::int64_t>(delay_ms));
      link.queue = {25, 0};
      tree.configure(static_cast<Tree::Node>(i + 2), link);
      options.receivers.push_back(static_cast<Tree::Node>(i + 2));
    }
    session = std::make_unique<Session>(simulator, tree, options);
  }
  static std::vector<Tree::Node> parents(std::size_t receivers) {
    std::vector<Tree::Node> parents{0, 0};
    parents.resize(receivers + 2, 1);
    parents[0] = parents[1] = 0;
    return parents;
  }
  void tcp_to(std::size_t i) {
    tcps.push_back(std::make_unique<TcpFlow>(simulator, tree, 0, static_cast<Tree::Node>(i + 2),
                                             static_cast<std::uint16_t>(1000 + tcps.size())));
    tcps.back()->start();
  }
  const pgmcc::Sender& sender() {
    return dynamic_cast<const pgmcc::Sender&>(session->sender().core());
  }
  double rate(double seconds) {  // packets/s sent
    const std::uint64_t then = sender().counts().packets;
    simulator.run_for(Duration::seconds(seconds));
    return static_cast<double>(sender().counts().packets - then) / seconds;
  }
  Simulator simulator;
  Tree tree;
  std::unique_ptr<Session> session;
  std::vector<std::unique_ptr<TcpFlow>> tcps;
};

TEST(PgmccSession, AloneItFillsItsLink) {
  Star star({1}, 1);
  star.session->start();
  star.simulator.run_for(Duration::seconds(20));
  EXPECT_NEAR(star.rate(60), 125, 0.1 * 125);  // 1 Mbit/s with a window of 10 to 30 packets
}

TEST(PgmccSession, SharesALinkWithTcp) {
  double ratio = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    Star star({2, 10, 10}, seed);
    star.session->start();
    star.tcp_to(0);
    star.simulator.run_for(Duration::seconds(20));
    const std::uint64_t then = star.tcps[0]->delivered_packets();
    const double own = star.rate(100);
    const double tcp = static_cast<double>(star.tcps[0]->delivered_packets() - then) / 100;
    EXPECT_EQ(star.sender().acker(), 2u);
    EXPECT_GT(own / tcp, 0.5);
    EXPECT_LT(own / tcp, 2);
    ratio += own / tcp / 3;
  }
  RecordProperty("mean_ratio", std::to_string(ratio));
}

TEST(PgmccSession, TheSlowestBecomesTheAcker) {
  Star star({4, 3, 4}, 1);
  star.session->start();
  star.simulator.run_for(Duration::seconds(30));
  EXPECT_EQ(star.sender().acker(), 3u);
  // The first link falls to a quarter of its rate. Its receiver loses most packets, and its NAKs
  // say so within a few round trips. The loss filter's memory is 131 packets, a third of a second
  // here.
  star.tree.set_rate(2, Rate::mbit_per_second(1));
  star.simulator.run_for(Duration::seconds(2));
  EXPECT_EQ(star.sender().acker(), 2u);
  star.simulator.run_for(Duration::seconds(10));
  EXPECT_NEAR(star.rate(40), 125, 0.12 * 125);
  // The bottleneck moves back: this link's receiver no longer loses packets, but the other one
  // does.
  star.tree.set_rate(2, Rate::mbit_per_second(4));
  star.simulator.run_for(Duration::seconds(60));
  EXPECT_EQ(star.sender().acker(), 3u);
  EXPECT_NEAR(star.rate(40), 375, 0.12 * 375);
}

TEST(PgmccSession, AnAckerThatDiesIsReplaced) {
  Star star({2, 4, 4}, 1);
  star.session->start();
  star.simulator.run_for(Duration::seconds(20));
  ASSERT_EQ(star.sender().acker(), 2u);
  star.session->receiver(0).die();
  star.simulator.run_for(Duration::seconds(10));
  EXPECT_TRUE(star.sender().has_acker());
  EXPECT_NE(star.sender().acker(), 2u);
  EXPECT_GT(star.rate(40), 300);
  // An acker that leaves is replaced at once.
  const std::uint32_t acker = star.sender().acker();
  const std::uint64_t timeouts = star.sender().counts().timeouts;
  star.session->receiver(acker - 2).stop();
  star.simulator.run_for(Duration::seconds(1));
  EXPECT_TRUE(star.sender().has_acker());
  EXPECT_NE(star.sender().acker(), acker);
  EXPECT_EQ(star.sender().counts().timeouts, timeouts);
}

TEST(PgmccSession, TheRateDoesNotFallToZeroWithTheNumberOfReceivers) {
  // Equal links with a TCP flow on each: the acker is always one of their receivers.
  const auto share = [](std::size_t n) {
    Star star(std::vector<double>(n, 1.0), 1);
    star.session->start();
    for (std::size_t i = 0; i < n; ++i) star.tcp_to(i);
    star.simulator.run_for(Duration::seconds(20));
    return star.rate(60);
  };
  const double one = share(1);
  EXPECT_NEAR(one, 62.5, 0.5 * 62.5);
  // Each of 64 links loses packets at different times, and the one that just did wins the election.
  // The acker's window is still like TCP's, so the share falls by less than half.
  EXPECT_GT(share(16) / one, 0.5);
}

TEST(PgmccSession, NaksOfASharedLossAreSuppressed) {
  const auto naks = [](const std::string& backoff) {
    Simulator simulator;
    std::vector<Tree::Node> parents{0, 0};
    for (int i = 0; i < 64; ++i) parents.push_back(1);
    Tree tree(simulator, parents, LinkConfig{}, Duration::milliseconds(1));
    LinkConfig link;
    link.marking = false;
    link.rate = Rate::mbit_per_second(1);
    link.delay = Duration::milliseconds(5);
    link.queue = {5, 0};
    tree.configure(1, link);
    tree.up(1).set_rate(Rate::zero());  // all NAKs arrive
    SessionOptions options;
    options.scheme = "pgmcc";
    options.layers = 1;
    options.jitter = Duration::milliseconds(1);
    options.set = {backoff};
    for (Tree::Node i = 0; i < 64; ++i) options.receivers.push_back(2 + i);
    Session session(simulator, tree, options);
    session.start();
    simulator.run_for(Duration::seconds(60));
    return dynamic_cast<const pgmcc::Sender&>(session.sender().core()).counts().naks;
  };
  const std::uint64_t without = naks("pgmcc.nak_backoff=0");
  const std::uint64_t with = naks("pgmcc.nak_backoff=1s");
  // 63 receivers draw their times from 1 s. A confirmation takes 10 to 60 ms, in which at most 4 of
  // them send.
  EXPECT_GT(without, 10'000u);
  EXPECT_LT(with, without / 10);
}

class PgmccProperty : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(PgmccProperty, GarbageNeitherCrashesNorStopsASession) {
  LossyGroupConfig config;
  config.scheme = "pgmcc";
  config.receivers = 6;
  config.seed = GetParam();
  config.loss = 0.02;
  config.duplicates = 0.02;
  config.reordering = Duration::milliseconds(5);
  config.start = Time::zero() + Duration::seconds(4294.967296 - 10);  // the 32-bit clock in
                                                                      // messages wraps
  LossyGroup group(config);
  group.start();
  Rng rng(GetParam());
  const auto& sender = dynamic_cast<const pgmcc::Sender&>(group.sender());
  for (int i = 0; i < 3000; ++i) {
    group.run_for(Duration::milliseconds(static_cast<std::int64_t>(rng.below(20))));
    forge(group, rng, rng.below(6), 40);
    ASSERT_TRUE(std::isfinite(sender.window().w()));
    ASSERT_GE(sender.window().w(), 1);
    ASSERT_LE(sender.window().w(), 1024);
    ASSERT_LE(sender.window().tokens(), 1024);
  }
  group.run_for(Duration::seconds(60));
  const std::uint64_t then = sender.counts().packets;
  group.run_for(Duration::seconds(20));
  EXPECT_GT(sender.counts().packets, then + 200);
}

TEST_P(PgmccProperty, ReceiversComeGoDieAndReturn) {
  LossyGroupConfig config;
  config.scheme = "pgmcc";
  config.receivers = 12;
  config.seed = GetParam();
  config.loss = 0.02;
  config.ack_loss = 0.02;
  config.reordering = Duration::milliseconds(30);
  LossyGroup group(config);
  group.start(0, 2);
  const auto& sender = dynamic_cast<const pgmcc::Sender&>(group.sender());
  Rng rng(GetParam() + 100);
  std::vector<int> state(12, 0);  // 0 not started, 1 runs, 2 dead, 3 stopped
  state[0] = state[1] = 1;
  for (int i = 0; i < 300; ++i) {
    group.run_for(Duration::milliseconds(static_cast<std::int64_t>(rng.below(1000))));
    const std::size_t who = rng.below(12);
    if (state[who] == 0) {
      group.start_receiver(who);
      state[who] = 1;
    } else if (state[who] == 1 && who != 0) {
      state[who] = rng.uniform() < 0.2 ? 3 : 2;
      state[who] == 3 ? group.stop_receiver(who) : group.die(who);
    } else if (state[who] == 2) {
      group.revive(who);
      state[who] = 1;
    }
  }
  const std::uint64_t then = sender.counts().packets;
  group.run_for(Duration::seconds(60));
  EXPECT_GT(sender.counts().packets, then + 500);
  EXPECT_TRUE(sender.has_acker());
}

INSTANTIATE_TEST_SUITE_P(Seeds, PgmccProperty, ::testing::Values(1, 2, 3, 4, 5, 11, 13));

}  // namespace
}  // namespace tiercast::testkit
