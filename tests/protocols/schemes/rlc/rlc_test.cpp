// RLC: its sender's bursts and synchronization points, its receiver's joins and leaves, and whole
// sessions (PROTOCOLS 11).
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include "protocols/schemes/rlc/receiver.h"
#include "protocols/schemes/rlc/sender.h"
#include "protocols/testkit/session.h"
#include "tests/protocols/rigs/recording_sink.h"

namespace tiercast::rlc {
namespace {

SessionConfig rlc_config(unsigned layers = 4, const std::vector<std::string>& set = {}) {
  return core_config("rlc", layers, set);
}

TEST(RlcSettings, CumulativeRatesDouble) {
  const Settings settings = Settings::from(rlc_config(6, {"rlc.base_rate=100kbit/s"}));
  const double kbit[] = {100, 100, 200, 400, 800, 1600};
  for (std::size_t k = 0; k < 6; ++k) EXPECT_EQ(settings.rate[k], Rate::kbit_per_second(kbit[k]));
  EXPECT_THROW(Settings::from(rlc_config(4, {"rlc.burst=126ms"})), ConfigError);
}

// 100 packets/s on layer 0, and bursts of 50 ms before points that are 250 ms apart.
TEST(RlcSender, BurstsDoubleTheRateBeforeAPointAndAPauseFollows) {
  RecordingSink sink;
  Sender sender(rlc_config(3, {"rlc.base_rate=800kbit/s", "rlc.burst=50ms"}));
  sender.start(at_ms(0), sink);
  sender.membership(at_ms(0), 2, sink);
  const double full[] = {100e3, 100e3, 200e3};  // B/s
  std::vector<std::byte> message(972);
  std::map<Rank, std::vector<int>> points;  // by rank: numbers of the points that packets carried
  for (int n = 1; n <= 8; ++n) {
    const int probed = n % 4 == 0 ? 2 : n % 2 == 0 ? 1 : 0;  // layers up to this one
    for (const auto& [at, factor] : {std::pair{-50, 2.0}, {0, 0.0}, {50, 1.0}}) {
      const Time now = at_ms(250 * n + at);
      ASSERT_EQ(sender.next_timer(), now);
      sender.timer(now, sink);
      for (int k = 0; k < 3; ++k) {
        const double expected = k <= probed ? factor * full[k] : full[k];
        EXPECT_NEAR(sink.rates[static_cast<Rank>(k)].bytes_per_second(), expected, 1)
            << "layer " << k << ", " << at << " ms from point " << n;
      }
    }
    for (Rank k = 0; k < 3; ++k) {
      for (int packet = 0; packet < 2; ++packet) {
        ASSERT_EQ(sender.write_data(at_ms(250 * n + 51), k, message), wire::RlcData::kBytes);
        wire::RlcData data;
        ASSERT_EQ(wire::parse(message, data), wire::Error::kOk);
        if (!data.sync_point) continue;
        EXPECT_EQ(packet, 0) << "the first packet after the point";
        points[k].push_back(n);
      }
    }
  }
  EXPECT_EQ(points[0], (std::vector{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(points[1], (std::vector{2, 4, 6, 8}));
  EXPECT_EQ(points[2], (std::vector{4, 8}));
  sender.stop(at_ms(3000), sink);
  EXPECT_EQ(sink.rates[0], Rate::zero());
  EXPECT_TRUE(sender.next_timer().is_never());
}

// Its receivers would take the next layer at once, without a burst that showed that it fits.
TEST(RlcSender, ALayerThatStartsCarriesNoPointThatHasPassed) {
  RecordingSink sink;
  Sender sender(rlc_config(3));
  sender.start(at_ms(0), sink);
  sender.membership(at_ms(0), 0, sink);
  while (sender.next_timer() < at_ms(1200)) sender.timer(sender.next_timer(), sink);
  sender.membership(at_ms(1200), 2, sink);
  std::vector<std::byte> message(972);
  for (Rank k = 1; k < 3; ++k) {
    ASSERT_EQ(sender.write_data(at_ms(1201), k, message), wire::RlcData::kBytes);
    wire::RlcData data;
    ASSERT_EQ(wire::parse(message, data), wire::Error::kOk);
    EXPECT_FALSE(data.sync_point) << "layer " << k;
  }
}

TEST(RlcSender, AStallOfHoursEndsAtOnceAndKeepsThePoints) {
  RecordingSink sink;
  Sender sender(rlc_config());
  sender.start(at_ms(0), sink);
  sender.membership(at_ms(0), 3, sink);
  const Time later = at_ms(100LL * 3600 * 1000);
  sender.timer(later, sink);
  EXPECT_GT(sender.next_timer(), later);
  EXPECT_LE(sender.next_timer(), later + Duration::milliseconds(250));
  sender.receive(later, {std::vector<std::byte>(16), 44, false, 1}, sink);
  EXPECT_EQ(sender.invalid(), 1u);  // receivers have nothing to say
}

class RlcReceiver : public testing::Test {
 protected:
  void begin(const std::vector<std::string>& set = {}) {
    receiver_ = std::make_unique<Receiver>(rlc_config(4, set));
    receiver_->start(now_, sink_);
  }
  void packet(Rank rank, bool sync_point = false, bool ce = false) {
    now_ = now_ + Duration::milliseconds(1);
    wire::RlcData data;
    data.session = 9;
    data.rank = rank;
    data.sync_point = sync_point;
    data.seq = seq_[rank]++;
    std::vector<std::byte> bytes(wire::RlcData::kBytes);
    wire::write(data, bytes);
    receiver_->receive(now_, {bytes, 1000, ce, 1}, sink_);
  }
  void lose(Rank rank) {
    ++seq_[rank];
    packet(rank);
  }
  void point(Rank rank) {
    now_ = now_ + Duration::milliseconds(250);
    packet(rank, true);
  }
  void climb_to(int wanted) {
    while (top() < wanted) point(static_cast<Rank>(top()));
    ASSERT_EQ(top(), wanted);
    for (int rank = 0; rank <= wanted; ++rank) packet(static_cast<Rank>(rank));
  }
  int top() const { return receiver_->counters().top; }

  RecordingSink sink_;
  Time now_ = at_ms(1000);
  std::unique_ptr<Receiver> receiver_;
  std::array<std::uint32_t, kMaxLayers> seq_{0xfffffff0u, 0, 7, 0xffffff00u};
};

TEST_F(RlcReceiver, JoinsAtTheSecondPointOfItsHighestLayer) {
  begin();
  packet(0);
  point(0);
  EXPECT_EQ(top(), 0);  // nothing is known of the time before the first point
  packet(0);
  point(0);
  EXPECT_EQ(top(), 1);
  packet(1, true);
  EXPECT_EQ(top(), 1);  // the same point
  point(0);
  point(0);
  EXPECT_EQ(top(), 1);  // not a point of the highest layer
  point(1);
  EXPECT_EQ(top(), 2);  // nothing was lost since the last point of layer 0
  climb_to(3);
  point(3);
  point(3);
  EXPECT_EQ(top(), 3);  // there is no higher layer
  EXPECT_TRUE(sink_.sent.empty());
}

TEST_F(RlcReceiver, ALossBetweenPointsPutsTheJoinOff) {
  begin();
  packet(0);
  point(0);
  lose(0);
  EXPECT_EQ(top(), 0);  // the base layer stays
  point(0);
  EXPECT_EQ(top(), 0);
  point(0);
  EXPECT_EQ(top(), 1);
}

TEST_F(RlcReceiver, LeavesAtALossAndIsDeafForAWhile) {
  begin();
  climb_to(3);
  lose(1);  // on any layer
  EXPECT_EQ(top(), 2);
  lose(0);
  lose(2);
  EXPECT_EQ(top(), 2);
  packet(3);  // still on its way
  EXPECT_EQ(receiver_->counters().lost, 3u);
  now_ = now_ + Duration::seconds(9.9);
  lose(0);
  EXPECT_EQ(top(), 2);
  now_ = now_ + Duration::seconds(0.1);
  lose(0);
  EXPECT_EQ(top(), 1);
  for (int i = 0; i < 5; ++i) point(1);
  EXPECT_EQ(top(), 1);  // nor does it join
  now_ = now_ + Duration::seconds(10);
  point(1);
  point(1);
  EXPECT_EQ(top(), 2);
}

TEST_F(RlcReceiver, MarksCountOnlyIfTold) {
  for (const bool ecn : {false, true}) {
    begin({ecn ? "rlc.ecn=1" : "rlc.ecn=0"});
    climb_to(2);
    packet(0, false, true);
    EXPECT_EQ(top(), ecn ? 1 : 2);
    EXPECT_EQ(receiver_->counters().marked, 1u);
  }
}

TEST(RlcState, DoesNotGrowWithTheNumberOfReceivers) {
  EXPECT_LE(sizeof(Sender), 512u);
  EXPECT_LE(sizeof(Receiver), 1024u);
}

}  // namespace
}  // namespace tiercast::rlc

namespace tiercast::testkit {
namespace {

LinkConfig plain(double mbit) {
  LinkConfig link;
  link.rate = Rate::mbit_per_second(mbit);
  link.delay = Duration::milliseconds(5);
  link.marking = false;
  link.queue = {20, 0};
  return link;
}

// 62.5 kbit/s and doubling layers behind 700 kbit/s: 500 fit. The bursts before the points show
// that 1000 do not fit, so joins are rare, and receivers behind one link stay together.
TEST(RlcSession, SettlesAtTheHighestLevelThatFitsAndReceiversStayTogether) {
  for (const std::uint64_t seed : {1, 2}) {
    Simulator simulator;
    Tree tree(simulator, {0, 0, 1, 1, 1}, plain(10), Duration::milliseconds(10));
    tree.configure(1, plain(0.7));
    SessionOptions options;
    options.scheme = "rlc";
    options.seed = seed;
    options.layers = 6;
    options.receivers = {2, 3, 4};
    options.set = {"rlc.base_rate=62.5kbit/s"};
    Session session(simulator, tree, options);
    session.start();
    simulator.run_for(Duration::seconds(60));
    session.begin_measuring({0.5, 0.5, 0.5});
    simulator.run_for(Duration::seconds(300));
    const Session::Result result = session.result();
    std::printf("seed %lu: %.3f %.3f %.3f Mbit/s, at level 4 %.2f, loss %.4f\n",
                static_cast<unsigned long>(seed), result.received_mbit[0], result.received_mbit[1],
                result.received_mbit[2], result.at_top[0][3], result.loss);
    for (const double mbit : result.received_mbit) {
      EXPECT_GE(mbit, 0.35);
      EXPECT_LE(mbit, 0.55);
      EXPECT_NEAR(mbit, result.received_mbit[0], 0.02);
    }
    EXPECT_LE(result.loss, 0.05);
  }
}

// MLDA figure 13: receivers behind one bottleneck stay together, whatever their round trips.
TEST(RlcSession, ReceiversWithDifferentDelaysStayTogether) {
  for (const std::uint64_t seed : {1, 2}) {
    Simulator simulator;
    Tree tree(simulator, {0, 0, 1, 1, 1}, plain(10), Duration::milliseconds(10));
    LinkConfig bottleneck = plain(0.75);
    bottleneck.delay = Duration::milliseconds(20);
    tree.configure(1, bottleneck);
    for (Tree::Node node = 2; node <= 4; ++node) {
      LinkConfig access = plain(10);
      access.delay = Duration::milliseconds(20 * (node - 1));
      tree.configure(node, access);
    }
    SessionOptions options;
    options.scheme = "rlc";
    options.seed = seed;
    options.layers = 8;
    options.receivers = {2, 3, 4};
    Session session(simulator, tree, options);
    session.start();
    simulator.run_for(Duration::seconds(150));
    session.begin_measuring({0.5, 0.5, 0.5});
    simulator.run_for(Duration::seconds(450));
    const Session::Result result = session.result();
    std::printf("seed %lu: %.3f %.3f %.3f Mbit/s, loss %.4f\n", static_cast<unsigned long>(seed),
                result.received_mbit[0], result.received_mbit[1], result.received_mbit[2],
                result.loss);
    for (const double mbit : result.received_mbit) {
      EXPECT_NEAR(mbit, result.received_mbit[0], 0.05 * result.received_mbit[0]);
    }
  }
}

}  // namespace
}  // namespace tiercast::testkit
