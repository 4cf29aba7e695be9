// Feedback that is not from the receiver in whose name it speaks, in whole sessions in virtual
// time: none of it reaches the core, all of it is counted, and the receivers get what they get
// without it. `make attack` shows these tests as rows of its table (docs/security.md).
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/core/registry.h"
#include "protocols/schemes/sim/messages.h"
#include "protocols/testkit/session.h"
#include "protocols/wire/bytes.h"
#include "protocols/wire/wire.h"

namespace tiercast::testkit {
namespace {

using Message = std::vector<std::byte>;

constexpr Tree::Node kFirst = 2, kSecond = 3, kAttacker = 4;
constexpr double kTolerance = 0.05;  // of what each receiver gets without the attack
constexpr Duration kWarmUp = Duration::seconds(30);
constexpr Duration kMeasured = Duration::seconds(30);

// Notes what the members say to the sender: an attacker that knows everything.
class Ear : public Relay {
 public:
  explicit Ear(Tree& tree) { tree.set_relay(0, this); }
  bool take(const Packet& packet) override {
    if (!packet.multicast && (packet.from == kFirst || packet.from == kSecond)) {
      heard[packet.from] = *packet.message;
    }
    return false;
  }
  std::map<Tree::Node, Message> heard;  // the latest of each member
};

// Sends what `forge` makes of a member's latest feedback to the sender, for each member in turn, 50
// times a second, on a link of its own.
class Attacker : public Actor {
 public:
  using Forge = std::function<Message(Message heard)>;
  Attacker(Simulator& simulator, Tree& tree, const Ear& ear, Forge forge)
      : Actor(simulator), tree_(tree), ear_(ear), forge_(std::move(forge)) {
    set_call(now() + kInterval);
  }
  std::uint64_t sent = 0;

 private:
  static constexpr Duration kInterval = Duration::milliseconds(20);

  void act() override {
    set_call(now() + kInterval);
    const auto heard = ear_.heard.find(turn_++ % 2 == 0 ? kFirst : kSecond);
    if (heard == ear_.heard.end()) return;
    auto message = std::make_shared<Message>(forge_(heard->second));
    Packet packet;
    packet.ip_length = static_cast<std::uint32_t>(message->size()) + kIpUdpHeaderBytes;
    packet.from = kAttacker;
    packet.session = 1;
    packet.message = std::move(message);
    tree_.send(kAttacker, packet);
    ++sent;
  }

  Tree& tree_;
  const Ear& ear_;
  Forge forge_;
  unsigned turn_ = 0;
};

struct Outcome {
  Session::Result result;
  std::uint64_t sent = 0;     // forged messages
  std::uint64_t invalid = 0;  // messages that the core refused
  FeedbackRefusals refusals;
};

// Two members behind links of 2 and 1 Mbit/s. `members_known`: false for a sender that is not told
// who the members are.
Outcome run(const Scheme& scheme, const Attacker::Forge& forge, bool members_known = true) {
  LinkConfig link;
  link.rate = Rate::mbit_per_second(10);
  link.delay = Duration::milliseconds(10);
  Simulator simulator;
  Tree tree(simulator, {0, 0, 1, 1, 0}, link, Duration::milliseconds(10));
  tree.set_rate(kFirst, Rate::mbit_per_second(2));
  tree.set_rate(kSecond, Rate::mbit_per_second(1));
  Ear ear(tree);
  SessionOptions options;
  options.scheme = scheme.name;
  options.layers = scheme.layered ? 3 : 1;
  options.receivers = {kFirst, kSecond};
  options.members_known = members_known;
  Session session(simulator, tree, options);
  session.start();
  std::optional<Attacker> attacker;
  if (forge) attacker.emplace(simulator, tree, ear, forge);
  simulator.run_for(kWarmUp);
  session.begin_measuring({2, 1});
  simulator.run_for(kMeasured);
  Outcome outcome{.result = session.result(),
                  .invalid = session.sender().core().invalid(),
                  .refusals = session.sender().refusals()};
  if (!attacker) return outcome;
  outcome.sent = attacker->sent;
  attacker.reset();
  simulator.run_for(Duration::seconds(1));  // until all of it has arrived
  outcome.refusals = session.sender().refusals();
  return outcome;
}

void expect_unharmed(const Outcome& attacked, const Outcome& alone) {
  EXPECT_EQ(attacked.invalid, alone.invalid);  // so no forged message reached the core
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(attacked.result.received_mbit[i], alone.result.received_mbit[i],
                kTolerance * alone.result.received_mbit[i])
        << "receiver " << i;
  }
}

class ForgedFeedback : public testing::TestWithParam<std::string_view> {
 protected:
  const Scheme& scheme() const { return find_scheme(GetParam()); }
};

std::vector<std::string_view> schemes_with_feedback() {
  std::vector<std::string_view> names;
  for (const Scheme& scheme : schemes()) {
    if (scheme.feedback_source_at > 0) names.push_back(scheme.name);
  }
  return names;
}

// Half of it as it was heard, half with a byte changed behind the number, if there is one.
TEST_P(ForgedFeedback, InAMembersNameFromAnotherAddressIsRefused) {
  Rng rng(7);
  const Outcome alone = run(scheme(), nullptr);
  const Outcome attacked = run(scheme(), [&](Message message) {
    const std::size_t from = scheme().feedback_source_at + 4;
    if (rng.uniform() < 0.5 && from < message.size()) {
      message[from + rng.below(message.size() - from)] = static_cast<std::byte>(rng.next());
    }
    return message;
  });
  EXPECT_GT(attacked.sent, 0u);
  EXPECT_EQ(attacked.refusals.impersonated, attacked.sent);
  EXPECT_EQ(attacked.refusals.non_member, 0u);
  expect_unharmed(attacked, alone);
}

TEST_P(ForgedFeedback, OfAHostThatIsNoMemberIsRefused) {
  const Outcome alone = run(scheme(), nullptr);
  const Outcome attacked = run(scheme(), [&](Message message) {
    wire::put32(message, scheme().feedback_source_at, kAttacker);
    return message;
  });
  EXPECT_GT(attacked.sent, 0u);
  EXPECT_EQ(attacked.refusals.non_member, attacked.sent);
  EXPECT_EQ(attacked.refusals.impersonated, 0u);
  expect_unharmed(attacked, alone);
}

// Where its number is: what the members send is never refused, and they are two.
TEST_P(ForgedFeedback, MembersOwnIsAccepted) {
  const Outcome alone = run(scheme(), nullptr);
  EXPECT_EQ(alone.refusals.total(), 0u);
  for (const double mbit : alone.result.received_mbit) EXPECT_GT(mbit, 0);
}

INSTANTIATE_TEST_SUITE_P(Schemes, ForgedFeedback, testing::ValuesIn(schemes_with_feedback()),
                         [](const auto& one) { return std::string(one.param); });

// Schemes whose receivers say nothing to the sender need no number. All others have one.
TEST(ForgedFeedback, EverySchemeWithFeedbackSaysWhereItsNumberIs) {
  for (const Scheme& scheme : schemes()) {
    LinkConfig link;
    link.rate = Rate::mbit_per_second(2);
    link.delay = Duration::milliseconds(10);
    Simulator simulator;
    Tree tree(simulator, {0, 0, 1, 1}, link, Duration::milliseconds(10));
    Ear ear(tree);
    SessionOptions options;
    options.scheme = scheme.name;
    options.layers = 1;
    options.receivers = {kFirst, kSecond};
    Session session(simulator, tree, options);
    session.start();
    simulator.run_for(Duration::seconds(20));
    if (scheme.feedback_source_at == 0) {
      EXPECT_TRUE(ear.heard.empty()) << scheme.name;
    }
    for (const auto& [node, message] : ear.heard) {
      EXPECT_EQ(wire::get32(message, scheme.feedback_source_at), node) << scheme.name;
    }
  }
}

// What SIM's sender believes if it does not know its members, one lie each.
Attacker::Forge lie(std::string_view name) {
  return [name](Message message) {
    wire::SimFeedback feedback;
    EXPECT_EQ(wire::parse(message, feedback), wire::Error::kOk);
    wire::SimRecord& record = feedback.records[0];
    if (name == "BYE") {
      feedback.record_count = 1;
      record = {};
    } else if (name == "congested") {
      record.reports = record.receivers = 1000;
      record.congested = 1000;
    } else if (name == "uncongested") {
      record.reports = record.receivers = 1000;
      record.congested = 0;
    } else {
      feedback.subtree_rtt_us = 2'000'000;
    }
    Message forged(feedback.bytes());
    EXPECT_EQ(wire::write(feedback, forged), forged.size());
    return forged;
  };
}

class SimLies : public testing::TestWithParam<std::string_view> {};

TEST_P(SimLies, AreRefusedOfOneWhoIsNoMember) {
  const Scheme& sim = find_scheme("sim");
  const Outcome alone = run(sim, nullptr);
  const Outcome attacked = run(sim, lie(GetParam()));
  EXPECT_EQ(attacked.refusals.impersonated, attacked.sent);
  expect_unharmed(attacked, alone);
  // Without members the same lies are heard.
  const Outcome believed = run(sim, lie(GetParam()), false);
  EXPECT_EQ(believed.refusals.total(), 0u);
  if (GetParam() == "RTT") {  // so the attack is one
    EXPECT_LT(believed.result.received_mbit[0],
              (1 - 2 * kTolerance) * alone.result.received_mbit[0]);
  }
  std::printf(
      "%.*s: %.2f and %.2f Mbit/s, loss %.1f %%; refused: %.2f and %.2f, %.1f %%; believed: "
      "%.2f and %.2f, %.1f %%\n",
      static_cast<int>(GetParam().size()), GetParam().data(), alone.result.received_mbit[0],
      alone.result.received_mbit[1], 100 * alone.result.loss, attacked.result.received_mbit[0],
      attacked.result.received_mbit[1], 100 * attacked.result.loss,
      believed.result.received_mbit[0], believed.result.received_mbit[1],
      100 * believed.result.loss);
}

INSTANTIATE_TEST_SUITE_P(Lies, SimLies, testing::Values("BYE", "congested", "uncongested", "RTT"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace tiercast::testkit
