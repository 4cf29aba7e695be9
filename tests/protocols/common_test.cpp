#include <gtest/gtest.h>

#include "protocols/common/ewma.h"
#include "protocols/common/gap_detector.h"

namespace tiercast {
namespace {

TEST(Ewma, FirstSampleSetsTheValue) {
  Ewma average(0.25);
  EXPECT_FALSE(average.valid());
  average.update(8);
  EXPECT_DOUBLE_EQ(average.value(), 8);
  average.update(4);
  EXPECT_DOUBLE_EQ(average.value(), 7);
}

// PROTOCOLS 13.1: feed 2^32-3 .. 3 with one hole, exactly one loss.
TEST(GapDetector, CountsOneLossAcrossTheWrap) {
  GapDetector gaps;
  std::uint32_t lost = 0;
  for (std::uint32_t seq = 0xfffffffd; seq != 4; ++seq) {
    if (seq != 0) lost += gaps.receive(seq);
  }
  EXPECT_EQ(lost, 1u);
}

TEST(GapDetector, TheFirstPacketIsNeverALoss) {
  GapDetector gaps;
  EXPECT_EQ(gaps.receive(12345), 0u);
  EXPECT_EQ(gaps.receive(12346), 0u);
  EXPECT_EQ(gaps.receive(12350), 3u);
  gaps.reset();
  EXPECT_EQ(gaps.receive(12400), 0u);
}

TEST(GapDetector, LateAndDuplicatePacketsAreIgnored) {
  GapDetector gaps;
  gaps.receive(10);
  EXPECT_EQ(gaps.receive(13), 2u);
  EXPECT_EQ(gaps.receive(11), 0u);
  EXPECT_EQ(gaps.receive(13), 0u);
  EXPECT_EQ(gaps.receive(14), 0u);
}

TEST(GapDetector, FarJumpsAreARestartedSender) {
  GapDetector gaps;
  gaps.receive(5000);
  EXPECT_EQ(gaps.receive(5001 + (1 << 16)), 1u << 16);
  EXPECT_EQ(gaps.receive(400'000'000), 0u);
  EXPECT_EQ(gaps.receive(400'000'002), 1u);
  EXPECT_EQ(gaps.receive(400'000'002 - (1 << 12)), 0u);  // backwards: a restart too
  EXPECT_EQ(gaps.receive(400'000'004 - (1 << 12)), 1u);
}

}  // namespace
}  // namespace tiercast
