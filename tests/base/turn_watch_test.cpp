#include "base/turn_watch.h"

#include <gtest/gtest.h>

namespace tiercast {
namespace {

TEST(TurnWatch, SaysTheLongestPauseSinceItWasAsked) {
  TurnWatch turns;
  turns.turn(5'000'000'000);  // the first turn ends no pause
  turns.turn(5'000'000'300);
  turns.turn(5'000'000'400);
  EXPECT_EQ(turns.last_turn_ns(), 5'000'000'400);
  EXPECT_EQ(turns.take_longest_ns(), 300);
  EXPECT_EQ(turns.take_longest_ns(), 0);
  turns.turn(5'000'000'450);
  EXPECT_EQ(turns.take_longest_ns(), 50);
}

TEST(TurnWatch, ABeatIsDueWhenTheLastOneIsOver) {
  TurnWatch turns;
  turns.turn(1'000);
  EXPECT_EQ(turns.next_beat_ns(), 1'000 + TurnWatch::kBeatNs);
  turns.turn(2'000);
  EXPECT_EQ(turns.next_beat_ns(), 1'000 + TurnWatch::kBeatNs);
  turns.turn(1'000 + TurnWatch::kBeatNs);
  EXPECT_EQ(turns.next_beat_ns(), 1'000 + 2 * TurnWatch::kBeatNs);
}

TEST(TurnWatch, WhatWasBeforeARestartDoesNotCount) {
  TurnWatch turns;
  turns.turn(0);
  turns.turn(9'000);
  turns.restart(70);
  EXPECT_EQ(turns.take_longest_ns(), 70);
}

}  // namespace
}  // namespace tiercast
