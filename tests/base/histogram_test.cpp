#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tiercast {
namespace {

TEST(Histogram, EmptyHasNoQuantiles) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.quantile(0.99), 0);
  EXPECT_EQ(histogram.max(), 0);
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (int i = 1; i <= 50; ++i) histogram.add(i);
  EXPECT_EQ(histogram.quantile(0.5), 25);
  EXPECT_EQ(histogram.quantile(0.99), 50);
  EXPECT_EQ(histogram.quantile(0), 1);
}

TEST(Histogram, NegativeCountsAsZeroAndExtremesFit) {
  Histogram histogram;
  histogram.add(-5);
  EXPECT_EQ(histogram.quantile(1), 0);
  histogram.add(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(histogram.quantile(1), std::numeric_limits<std::int64_t>::max());
}

// The accuracy that the header promises, checked against sorted values over nine decades.
TEST(Histogram, QuantilesAreAtMost32PerMilleAbove) {
  const unsigned seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(0, 9);
  std::vector<std::int64_t> values;
  Histogram histogram;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(static_cast<std::int64_t>(std::pow(10, exponent(random))));
    histogram.add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double share : {0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank =
        static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size()))) - 1;
    const double truth = static_cast<double>(values[rank]);
    const double got = static_cast<double>(histogram.quantile(share));
    EXPECT_GE(got, truth) << share;
    EXPECT_LE(got, truth * 1.032) << share;
  }
  EXPECT_EQ(histogram.max(), values.back());
}

TEST(Histogram, AddingAnotherGivesTheUnion) {
  Histogram low;
  Histogram high;
  for (int i = 0; i < 99; ++i) low.add(10);
  high.add(1'000'000);
  low.add(high);
  EXPECT_EQ(low.count(), 100u);
  EXPECT_EQ(low.quantile(0.99), 10);
  EXPECT_EQ(low.quantile(1), 1'000'000);
  low.reset();
  EXPECT_EQ(low.count(), 0u);
}

TEST(Histogram, WhatCameSinceAnEarlierCopy) {
  Histogram histogram;
  histogram.add(1'000'000);
  histogram.add(7);
  const Histogram before = histogram;
  EXPECT_EQ(histogram.since(before).count(), 0u);
  EXPECT_EQ(histogram.since(before).max(), 0);
  histogram.add(7);
  histogram.add(50'000);
  const Histogram added = histogram.since(before);
  EXPECT_EQ(added.count(), 2u);
  EXPECT_EQ(added.quantile(0.5), 7);
  EXPECT_GE(added.max(), 50'000);
  EXPECT_LE(added.max(), 51'600);  // a bin's width, 3.2 %
  histogram.add(2'000'000);
  EXPECT_EQ(histogram.since(before).max(), 2'000'000);  // the overall maximum is exact
}

}  // namespace
}  // namespace tiercast
