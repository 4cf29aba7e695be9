#include "dataplane/switch/lateness.h"

#include <gtest/gtest.h>

#include <limits>

namespace tiercast::vswitch {
namespace {

TEST(Lateness, EmptyIsZero) {
  const LatenessHistogram histogram;
  EXPECT_EQ(histogram.quantile(0.99), 0);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.count(), 0u);
}

TEST(Lateness, QuantilesOfAUniformSpreadAreWithinABucket) {
  LatenessHistogram histogram;
  for (std::int64_t us = 1; us <= 1000; ++us) histogram.record(us * 1000);
  EXPECT_NEAR(static_cast<double>(histogram.quantile(0.5)), 500e3, 500e3 / 16);
  EXPECT_NEAR(static_cast<double>(histogram.quantile(0.99)), 990e3, 990e3 / 16);
  EXPECT_EQ(histogram.quantile(1), 1'000'000);
  EXPECT_EQ(histogram.max(), 1'000'000);
}

TEST(Lateness, ASingleValueIsReadExactlyOrAtItsMaximum) {
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{15}, std::int64_t{16},
                                   std::int64_t{4097}, std::numeric_limits<std::int64_t>::max()}) {
    LatenessHistogram histogram;
    histogram.record(value);
    EXPECT_EQ(histogram.quantile(0.5), value);
  }
}

TEST(Lateness, EarlyCountsAsOnTime) {
  LatenessHistogram histogram;
  histogram.record(-5);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.count(), 1u);
}

}  // namespace
}  // namespace tiercast::vswitch
