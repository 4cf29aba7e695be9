// Whole SIM sessions over the tree of figure 1 in virtual time, with the program's aggregator in
// every node between sender and receivers (`aggregation: network`). Measures how much of the
// receivers' feedback reaches the sender while queues of up to 400 ms grow and drain.
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "protocols/testkit/session.h"
#include "tests/p4src/aggregation_model.h"
#include "tests/p4src/bench.h"

namespace tiercast::p4test {
namespace {

using testkit::Tree;

constexpr std::uint32_t kDown = 2;  // port
constexpr unsigned kLayers = 5;
constexpr std::size_t kReceivers = 16;
constexpr std::size_t kSimDataBytes = 32;

// A switch that runs the program at a node of the tree. It sees the headers of data, takes the
// feedback from below, and sends its own. The tree provides queues and marks.
class AggregatorNode : public testkit::Relay {
 public:
  AggregatorNode(testkit::Simulator& simulator, Tree& tree, Tree::Node node)
      : simulator_(simulator), tree_(tree), node_(node) {
    bench_.host("10.0.0.2", kUp, 0x020000000002);
    for (std::uint32_t rank = 0; rank < kLayers; ++rank) {
      bench_.subscribe(group(1, rank), group(1, rank) & 0xffff, {kDown});
    }
    Aggregator entry;
    entry.id = kFirstId + node;
    bench_.aggregate(1, entry);
    tree.set_relay(node, this);
  }
  ~AggregatorNode() override { tree_.set_relay(node_, nullptr); }

  bool take(const testkit::Packet& packet) override {
    bench_.advance_to(simulator_.now().ns());
    const std::span message(*packet.message);
    Packet in;
    if (packet.multicast) {
      in = layer_packet(1, packet.rank);
      in.payload = udp(5500, message.first(kSimDataBytes));
    } else {
      in.src = packet.from;
      in.payload = udp(5501, message);
    }
    bench_.receive(packet.multicast ? kUp : kDown, in);
    for (const Frame& frame : bench_.sent_on(kUp)) {
      const Frame datagram = ip_payload(frame);
      testkit::Packet summary;
      summary.ip_length = static_cast<std::uint32_t>(kIpv4Bytes + datagram.size());
      summary.from = kFirstId + node_;
      summary.session = 1;
      summary.message =
          std::make_shared<std::vector<std::byte>>(datagram.begin() + 8, datagram.end());
      tree_.pass_on(node_, summary);
    }
    bench_.clear();
    return !packet.multicast;
  }

  static constexpr std::uint32_t kFirstId = 1000;  // of node 0, and its address

 private:
  testkit::Simulator& simulator_;
  Tree& tree_;
  const Tree::Node node_;
  Bench bench_;
};

// The sender's rounds in 90 s, except the first. In the first round no child is known, so each
// level waits for two of the sender's round-trip times, and the sender's own wait ends earlier.
struct Rounds {
  unsigned all = 0;
  unsigned empty = 0;       // no report at all
  unsigned incomplete = 0;  // fewer reports than receivers
  double reports = 0;       // mean
};

Rounds session_rounds(std::uint64_t seed, bool in_network, double feedback_loss,
                      std::vector<std::string> set = {}) {
  testkit::Simulator simulator;
  testkit::Figure1 figure(simulator);
  testkit::SessionOptions options;
  options.seed = seed;
  options.jitter = Duration::milliseconds(2);
  options.receivers = testkit::Figure1::receivers();
  options.layers = kLayers;
  options.set = std::move(set);
  // The sender hears the aggregator at its own node alone.
  if (in_network) {
    options.others = {{AggregatorNode::kFirstId, AggregatorNode::kFirstId, 16}};
  }
  testkit::Session session(simulator, figure.tree, options);
  std::vector<std::unique_ptr<AggregatorNode>> nodes;
  for (Tree::Node node = 0; in_network && node < options.receivers.front(); ++node) {
    nodes.push_back(std::make_unique<AggregatorNode>(simulator, figure.tree, node));
  }
  for (std::size_t i = 0; i < kReceivers; ++i) session.receiver(i).set_send_loss(feedback_loss);

  std::vector<double> reports;  // by round
  double of_round = 0;
  session.sender().set_trace([&](Time, Tree::Node, std::string_view kind, auto fields) {
    for (const TraceField& field : fields) {
      if (kind == "sim.group" && field.name == "reports") of_round += field.value;
    }
    if (kind == "sim.round") {
      reports.push_back(of_round);
      of_round = 0;
    }
  });
  session.start();
  simulator.run_for(Duration::seconds(90));

  Rounds rounds;
  for (std::size_t i = 1; i < reports.size(); ++i) {
    ++rounds.all;
    rounds.empty += reports[i] == 0;
    rounds.incomplete += reports[i] < kReceivers;
    rounds.reports += reports[i] / static_cast<double>(reports.size() - 1);
  }
  std::printf(
      "seed %lu, %s, feedback loss %g %%: %u rounds, %u empty, %u incomplete, "
      "%.2f reports in the mean\n",
      static_cast<unsigned long>(seed), in_network ? "network" : "sender", 100 * feedback_loss,
      rounds.all, rounds.empty, rounds.incomplete, rounds.reports);
  return rounds;
}

class AggregationSession : public testing::TestWithParam<std::uint64_t> {};

// The sender hears everything that comes from the receivers themselves. With summaries from
// switches, a receiver's report may be too late in a round in which its queue grew by more than its
// aggregator waits: receiver 25 overloads its link by a quarter whenever it has a fourth layer. The
// bound holds for a receiver that seldom tries it, as with add_backoff; with SIM's defaults, 3 to 5
// % are late.
TEST_P(AggregationSession, TheSenderHearsAllReceivers) {
  const Rounds direct = session_rounds(GetParam(), false, 0);
  EXPECT_EQ(direct.incomplete, 0u);
  const Rounds rounds = session_rounds(GetParam(), true, 0, {"sim.add_backoff=2"});
  EXPECT_GT(rounds.all, 200u);
  EXPECT_EQ(rounds.empty, 0u);
  EXPECT_LE(rounds.incomplete, 3 * rounds.all / 100);
  EXPECT_GE(rounds.reports, kReceivers * 0.995);
}

// If nobody adds a layer, nobody overloads a link for long, and every round is complete.
TEST_P(AggregationSession, RoundsAreCompleteWhereQueuesGrowSlowly) {
  const Rounds rounds = session_rounds(GetParam(), true, 0, {"sim.add_after=1000"});
  EXPECT_EQ(rounds.empty, 0u);
  EXPECT_EQ(rounds.incomplete, 0u);
}

// A lost message keeps its aggregator waiting until the time is over, but those above wait longer.
// So few other reports are lost with it.
TEST_P(AggregationSession, LostFeedbackTakesLittleElseWithIt) {
  constexpr double kLoss = 0.01;
  const Rounds rounds = session_rounds(GetParam(), true, kLoss);
  EXPECT_LE(rounds.empty, rounds.all / 100);
  EXPECT_GE(rounds.reports, kReceivers * (1 - 3 * kLoss));
}

INSTANTIATE_TEST_SUITE_P(Seeds, AggregationSession, testing::Range<std::uint64_t>(1, 5));

}  // namespace
}  // namespace tiercast::p4test
