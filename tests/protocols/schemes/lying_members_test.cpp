// Members that lie in their own names, in whole sessions in virtual time: every lie of every scheme
// is told, what cannot be true is counted and bounded, and who is honest is never suspected. `make
// attack` shows some of these tests as rows of its table (docs/security.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "protocols/core/registry.h"
#include "protocols/driver/lying_receiver.h"
#include "protocols/testkit/session.h"

namespace tiercast::testkit::lying {
namespace {

constexpr Tree::Node kLiar = 4, kBeside = 5, kElsewhere = 6;
constexpr Duration kWarmUp = Duration::seconds(40);
constexpr Duration kMeasured = Duration::seconds(40);

struct Outcome {
  double liar = 0;       // Mbit/s that it receives
  double beside = 0;     // an honest member behind the same bottleneck
  double elsewhere = 0;  // one behind a wider one
  double loss = 0;
  int top = 0;             // layers of the liar, less one
  std::uint64_t said = 0;  // messages of the liar
  std::uint64_t implausible = 0;
};

// Counts what the liar says to the sender.
class Ear : public Relay {
 public:
  explicit Ear(Tree& tree) { tree.set_relay(0, this); }
  bool take(const Packet& packet) override {
    said += !packet.multicast && packet.from == kLiar ? 1 : 0;
    return false;
  }
  std::uint64_t said = 0;
};

// The liar and a member behind a link of 1 Mbit/s, and a member behind one of 2 Mbit/s. `lost`: the
// probability that a message to the sender is lost.
Outcome run(const Scheme& scheme, const std::string& lie, double lost = 0, std::uint64_t seed = 1) {
  LinkConfig link;
  link.rate = Rate::mbit_per_second(10);
  link.delay = Duration::milliseconds(5);
  Simulator simulator;
  Tree tree(simulator, {0, 0, 1, 1, 2, 2, 3}, link, Duration::milliseconds(10));
  tree.set_rate(2, Rate::mbit_per_second(1));
  tree.set_rate(3, Rate::mbit_per_second(2));
  Ear ear(tree);
  SessionOptions options;
  options.scheme = scheme.name;
  options.layers = scheme.layered ? 3 : 1;
  options.seed = seed;
  options.receivers = {kLiar, kBeside, kElsewhere};
  if (!lie.empty()) options.lies[kLiar] = lie;
  Session session(simulator, tree, options);
  for (std::size_t i = 0; i < 3; ++i) session.receiver(i).set_send_loss(lost);
  session.start();
  simulator.run_for(kWarmUp);
  session.begin_measuring({1, 1, 2});
  simulator.run_for(kMeasured);
  const Session::Result result = session.result();
  return {.liar = result.received_mbit[0],
          .beside = result.received_mbit[1],
          .elsewhere = result.received_mbit[2],
          .loss = result.loss,
          .top = session.top(0),
          .said = ear.said,
          .implausible = session.sender().refusals().implausible};
}

struct Told {
  std::string_view scheme;
  std::string_view lie;
};
std::vector<Told> all_lies() {
  std::vector<Told> all;
  for (const Scheme& scheme : schemes()) {
    for (const Lie* lie : lies_of(scheme)) all.push_back({scheme.name, lie->name});
  }
  return all;
}
bool is_bounded(const Told& told) {
  return told.lie == "million_receivers" || told.lie == "optimistic_acks";
}

class LyingMembers : public testing::TestWithParam<Told> {};

// Only what no member could truthfully say is refused: other lies look like an honest member on
// another path.
TEST_P(LyingMembers, AreCountedIfWhatTheySayCannotBeTrue) {
  const Scheme& scheme = find_scheme(GetParam().scheme);
  const Outcome honest = run(scheme, "");
  const Outcome told = run(scheme, std::string(GetParam().lie));
  std::printf(
      "%-5s %-21s liar %.2f (%.2f), beside %.2f (%.2f), elsewhere %.2f (%.2f) Mbit/s, loss "
      "%.1f (%.1f) %%, implausible %llu\n",
      std::string(scheme.name).c_str(), std::string(GetParam().lie).c_str(), told.liar, honest.liar,
      told.beside, honest.beside, told.elsewhere, honest.elsewhere, 100 * told.loss,
      100 * honest.loss, static_cast<unsigned long long>(told.implausible));
  EXPECT_EQ(honest.implausible, 0u);
  if (is_bounded(GetParam())) {
    EXPECT_GT(told.implausible, 100u);
  } else {
    EXPECT_EQ(told.implausible, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Lies, LyingMembers, testing::ValuesIn(all_lies()), [](const auto& one) {
  return std::string(one.param.scheme) + "_" + std::string(one.param.lie);
});

class HonestMembers : public testing::TestWithParam<std::tuple<std::string_view, std::uint64_t>> {};

std::vector<std::string_view> names() {
  std::vector<std::string_view> names;
  for (const Scheme& scheme : schemes()) names.push_back(scheme.name);
  return names;
}

// A tenth of what they say is lost. What a lost acknowledgement has proven, later ones prove anew.
TEST_P(HonestMembers, AreNeverSuspected) {
  const auto& [name, seed] = GetParam();
  EXPECT_EQ(run(find_scheme(name), "", 0.1, seed).implausible, 0u);
}

INSTANTIATE_TEST_SUITE_P(Schemes, HonestMembers,
                         testing::Combine(testing::ValuesIn(names()), testing::Values(1u, 2u)),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param)) + "_" +
                                  std::to_string(std::get<1>(one.param));
                         });

// What is left of an acknowledgement that goes too far is what its source has. In RLA it is all up
// to the latest packet, so it gains nothing over acknowledging what was lost, which nobody can find
// out without another wire format.
TEST(OptimisticAcks, CountForNoMoreThanHasArrived) {
  const Scheme& rla = find_scheme("rla");
  const Outcome bounded = run(rla, "optimistic_acks");
  const Outcome arrived = run(rla, "never_congested");
  EXPECT_GT(bounded.implausible, 1000u);
  EXPECT_DOUBLE_EQ(bounded.liar, arrived.liar);
  EXPECT_DOUBLE_EQ(bounded.beside, arrived.beside);
  EXPECT_DOUBLE_EQ(bounded.elsewhere, arrived.elsewhere);
}

// In PGMCC it is the latest packet alone, so what was lost is found out, too.
TEST(OptimisticAcks, DoNotHideLosses) {
  const Scheme& pgmcc = find_scheme("pgmcc");
  const Outcome honest = run(pgmcc, "");
  const Outcome told = run(pgmcc, "optimistic_acks");
  EXPECT_GT(told.implausible, 1000u);
  EXPECT_LE(told.loss, honest.loss + 0.01);
  EXPECT_NEAR(told.beside, honest.beside, 0.05 * honest.beside);
  EXPECT_NEAR(told.elsewhere, honest.elsewhere, 0.05 * honest.elsewhere);
}

TEST(MillionReceivers, AreRefused) {
  const Outcome told = run(find_scheme("sim"), "million_receivers");
  EXPECT_GT(told.said, 100u);
  EXPECT_EQ(told.implausible, told.said);
}

// SIM's rules bound what one member's reports do, whatever it says.
class SimMembers : public testing::TestWithParam<std::string> {};

TEST_P(SimMembers, MoveTheirOwnVoteAlone) {
  const Scheme& sim = find_scheme("sim");
  const Outcome honest = run(sim, "");
  const Outcome told = run(sim, GetParam());
  EXPECT_GE(told.beside, 0.95 * honest.beside);
  EXPECT_GE(told.elsewhere, 0.95 * honest.elsewhere);
  EXPECT_LE(told.loss, honest.loss + 0.01);
}

INSTANTIATE_TEST_SUITE_P(Lies, SimMembers,
                         testing::Values("always_congested", "never_congested", "rate_zero",
                                         "million_receivers"),
                         [](const auto& one) { return one.param; });

TEST(Lies, AreRefusedWhereTheyMeanNothing) {
  for (const Scheme& scheme : schemes()) {
    try {
      find_lie(scheme, "white");
      ADD_FAILURE() << scheme.name;
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("lie 'white' means nothing in " + std::string(scheme.name) +
                          "; valid: always_congested"),
                std::string::npos)
          << text;
    }
  }
}

TEST(Lies, AnInflatedSubscriptionHasAllLayers) {
  for (const Scheme& scheme : schemes()) {
    const std::vector<const Lie*> lies = lies_of(scheme);
    const bool can = std::ranges::find(lies, "inflated_subscription", &Lie::name) != lies.end();
    EXPECT_EQ(can, scheme.layered) << scheme.name;
    if (!can) continue;
    EXPECT_EQ(run(scheme, "inflated_subscription").top, 2) << scheme.name;
  }
}

}  // namespace
}  // namespace tiercast::testkit::lying
