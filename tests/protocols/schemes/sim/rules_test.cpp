#include <gtest/gtest.h>

#include <set>

#include "protocols/base/rng.h"
#include "protocols/schemes/sim/children.h"
#include "protocols/schemes/sim/menu.h"

namespace tiercast::sim {
namespace {

// PROTOCOLS 3.2 and 13.1: m = 1, M = 6, n_g = 5.
TEST(SimMenu, SplitsTheRangeIntoEqualSubranges) {
  const Menu menu = adapt_menu(5, true, Rate::mbit_per_second(1), Rate::mbit_per_second(6), 0.1);
  ASSERT_TRUE(menu.active);
  EXPECT_NEAR(menu.limit[1].mbit_per_second(), 2.667, 1e-3);
  EXPECT_NEAR(menu.limit[2].mbit_per_second(), 4.333, 1e-3);
  EXPECT_NEAR(menu.limit[3].mbit_per_second(), 6.0, 1e-3);
}

TEST(SimMenu, ThreeLayersGiveOneLimitAtTheTop) {
  const Menu menu = adapt_menu(3, true, Rate::mbit_per_second(1), Rate::mbit_per_second(6), 0.1);
  ASSERT_TRUE(menu.active);
  EXPECT_NEAR(menu.limit[1].mbit_per_second(), 6.0, 1e-9);
}

TEST(SimMenu, IsInactiveUnlessTheTopWasCongestedAndTheRangeIsWide) {
  const Rate low = Rate::mbit_per_second(1);
  const Rate high = Rate::mbit_per_second(6);
  EXPECT_FALSE(adapt_menu(5, false, low, high, 0.1).active);
  EXPECT_FALSE(adapt_menu(5, true, high * 0.95, high, 0.1).active);
  EXPECT_TRUE(adapt_menu(5, true, high * 0.85, high, 0.1).active);
  EXPECT_FALSE(adapt_menu(2, true, low, high, 0.1).active);
  EXPECT_FALSE(adapt_menu(1, true, low, high, 0.1).active);
  EXPECT_FALSE(adapt_menu(5, true, Rate::zero(), Rate::zero(), 0.1).active);
}

TEST(SimCongested, BottomGroupFollowsItsSlowestReceiver) {
  for (const bool menu : {false, true}) {
    EXPECT_FALSE(group_congested(0, 5, menu, {16, 0}));
    EXPECT_TRUE(group_congested(0, 5, menu, {16, 1}));
  }
}

TEST(SimCongested, TopGroupFollowsItsFastestReceiver) {
  for (const bool menu : {false, true}) {
    EXPECT_FALSE(group_congested(4, 5, menu, {3, 2}));
    EXPECT_TRUE(group_congested(4, 5, menu, {3, 3}));
  }
}

TEST(SimCongested, MiddleGroupsFollowTheMajorityOnlyWithAMenu) {
  EXPECT_TRUE(group_congested(2, 5, false, {4, 1}));
  EXPECT_FALSE(group_congested(2, 5, true, {4, 1}));
  EXPECT_FALSE(group_congested(2, 5, true, {4, 2}));  // a tie is not a majority
  EXPECT_TRUE(group_congested(2, 5, true, {4, 3}));
}

TEST(SimCongested, ASingleGroupIsABottomGroup) { EXPECT_TRUE(group_congested(0, 1, true, {3, 1})); }

TEST(SimChildren, KnowsWhoIsMissing) {
  Children children(4);
  EXPECT_EQ(children.answer(1), Children::Answer::kNew);
  EXPECT_EQ(children.answer(1), Children::Answer::kDuplicate);
  EXPECT_EQ(children.answer(2), Children::Answer::kNew);
  children.begin_round();
  EXPECT_EQ(children.pending(), 2u);
  EXPECT_EQ(children.answer(2), Children::Answer::kKnown);
  EXPECT_EQ(children.answer(2), Children::Answer::kDuplicate);
  EXPECT_EQ(children.pending(), 1u);
  children.remove(1);
  EXPECT_EQ(children.pending(), 0u);
  EXPECT_EQ(children.count(), 1u);
}

TEST(SimChildren, HoldsNoMoreThanItsMaximum) {
  Children children(2);
  children.answer(1);
  children.answer(2);
  EXPECT_EQ(children.answer(3), Children::Answer::kFull);
  children.seen(4);
  EXPECT_EQ(children.count(), 2u);
}

TEST(SimChildren, ForgetsTheSilentButNotTheLate) {
  Children children(4);
  children.answer(1);
  children.answer(2);
  children.answer(3);
  for (int round = 0; round < 3; ++round) {
    children.begin_round();
    children.answer(1);
    children.seen(2);  // always too late
    children.end_round(3);
  }
  EXPECT_EQ(children.count(), 2u);
}

TEST(SimChildren, HearsANewChildThatIsFirstSeenTooLate) {
  Children children(4);
  children.answer(1);
  children.begin_round();
  children.seen(2);
  children.seen(2);
  EXPECT_EQ(children.pending(), 2u);
  EXPECT_EQ(children.answer(2), Children::Answer::kKnown);
  EXPECT_EQ(children.answer(2), Children::Answer::kDuplicate);
  EXPECT_EQ(children.pending(), 1u);
  children.seen(3);
  children.remove(3);
  EXPECT_EQ(children.pending(), 1u);
  EXPECT_EQ(children.answered(), 1u);
}

// Compared with a std::set, over sources that collide or were removed.
TEST(SimChildren, BehavesLikeASet) {
  Rng rng(3);
  Children children(64);
  std::set<std::uint32_t> model;
  for (int i = 0; i < 50'000; ++i) {
    const auto source = static_cast<std::uint32_t>(rng.below(100) << 20);
    if (rng.uniform() < 0.5) {
      children.remove(source);
      model.erase(source);
    } else {
      children.seen(source);
      if (model.size() < 64) model.insert(source);
    }
    ASSERT_EQ(children.count(), model.size());
  }
  children.begin_round();
  for (const std::uint32_t source : model)
    EXPECT_EQ(children.answer(source), Children::Answer::kKnown);
  EXPECT_EQ(children.pending(), 0u);
}

}  // namespace
}  // namespace tiercast::sim
