// A scheme that sends ECN-capable packets must respond to their marks (RFC 3168, 5). Checked for
// every scheme in the registry.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocols/core/registry.h"
#include "protocols/testkit/session.h"
#include "protocols/wire/wire.h"

namespace tiercast::testkit {
namespace {

// Counts data packets by their ECN field, and marks all ECT ones on request.
class Marker : public Relay {
 public:
  Marker(Tree& tree, Tree::Node node, bool marks) : tree_(tree), node_(node), marks_(marks) {
    tree.set_relay(node, this);
  }

  bool take(const Packet& packet) override {
    wire::CommonHeader header;
    const bool data = wire::parse_common(*packet.message, header) == wire::Error::kOk &&
                      header.type == wire::Type::kData;
    if (!data) {
      others_ect += packet.ect ? 1 : 0;
      return false;
    }
    ++(packet.ect ? ect : not_ect);
    if (!packet.ect || !marks_) return false;
    Packet marked = packet;
    marked.ce = true;
    tree_.pass_on(node_, marked);
    return true;
  }

  std::uint64_t ect = 0;
  std::uint64_t not_ect = 0;
  std::uint64_t others_ect = 0;  // control packets

 private:
  Tree& tree_;
  Tree::Node node_;
  bool marks_;
};

struct EcnOutcome {
  std::uint64_t ect, not_ect, others_ect;
  ReceiverCounters receiver;
};

// Two minutes alone behind 1 Mbit/s.
EcnOutcome run(const Scheme& scheme, const std::vector<std::string>& set, bool marks) {
  LinkConfig link;
  link.rate = Rate::mbit_per_second(1);
  link.delay = Duration::milliseconds(20);
  link.marking = false;
  Simulator simulator;
  Tree tree(simulator, {0, 0, 1}, link, Duration::milliseconds(10));
  Marker marker(tree, 1, marks);
  SessionOptions options;
  options.scheme = scheme.name;
  options.layers = scheme.layered ? 5 : 1;
  options.receivers = {2};
  options.set = set;
  Session session(simulator, tree, options);
  session.start();
  simulator.run_for(Duration::seconds(120));
  return {marker.ect, marker.not_ect, marker.others_ect, session.receiver(0).counters()};
}

TEST(Ecn, WhatIgnoresMarksIsNotEcnCapable) {
  for (const Scheme& scheme : schemes()) {
    const std::string parameter = std::string(scheme.name) + ".ecn";
    bool has_parameter = false;
    for (const ParameterInfo& info : scheme.parameters) has_parameter |= info.name == parameter;
    for (const bool ecn : {false, true}) {
      std::vector<std::string> set;
      if (has_parameter) set.push_back(parameter + (ecn ? "=1" : "=0"));
      SCOPED_TRACE(set.empty() ? std::string(scheme.name) : set[0]);
      const EcnOutcome plain = run(scheme, set, false);
      const EcnOutcome marked = run(scheme, set, true);
      EXPECT_EQ(plain.others_ect + marked.others_ect, 0u);
      ASSERT_GT(plain.receiver.packets, 100u);
      if (has_parameter ? ecn : scheme.name == "sim") {
        EXPECT_EQ(plain.not_ect + marked.not_ect, 0u);
        EXPECT_EQ(plain.receiver.marked, 0u);
        EXPECT_EQ(marked.receiver.marked, marked.receiver.packets);
        // PLM drops a layer for losses; its next check asks the pairs alone, which see the room.
        const double most = scheme.name == "plm" ? 0.97 : 0.7;
        EXPECT_LT(marked.receiver.bytes, most * static_cast<double>(plain.receiver.bytes));
      } else {
        EXPECT_EQ(plain.ect + marked.ect, 0u);
        EXPECT_EQ(marked.receiver.marked, 0u);
        EXPECT_EQ(marked.receiver.bytes, plain.receiver.bytes);
      }
      if (!has_parameter) break;
    }
  }
}

}  // namespace
}  // namespace tiercast::testkit
