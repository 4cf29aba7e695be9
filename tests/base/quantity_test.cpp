#include "base/quantity.h"

#include <gtest/gtest.h>

namespace tiercast {
namespace {

TEST(Quantity, Rates) {
  EXPECT_EQ(read_rate("6Mbit/s"), 6e6);
  EXPECT_EQ(read_rate("300kbit/s"), 300e3);
  EXPECT_EQ(read_rate("1.5Gbit/s"), 1.5e9);
  EXPECT_EQ(read_rate("800bit/s"), 800);
  EXPECT_EQ(read_rate("2500B/s"), 20'000);
  EXPECT_EQ(read_rate("0bit/s"), 0);
  for (const char* wrong : {"", "6", "Mbit/s", "-6Mbit/s", "6 Mbit/s", "6Mbit", "6mbit/s",
                            "nanMbit/s", "infB/s", "1e999bit/s"}) {
    EXPECT_EQ(read_rate(wrong), std::nullopt) << wrong;
  }
}

TEST(Quantity, Durations) {
  EXPECT_EQ(read_duration("5ms"), 5e6);
  EXPECT_EQ(read_duration("1.5s"), 1.5e9);
  EXPECT_EQ(read_duration("0.5us"), 500);
  EXPECT_EQ(read_duration("30ns"), 30);
  for (const char* wrong : {"", "5", "ms", "-5ms", "5m", "5 ms", "nans"}) {
    EXPECT_EQ(read_duration(wrong), std::nullopt) << wrong;
  }
}

TEST(Quantity, Queues) {
  const auto both = read_queue("50p/30000B");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->packets, 50u);
  EXPECT_EQ(both->bytes, 30000u);
  EXPECT_EQ(read_queue("30000B")->packets, std::nullopt);
  EXPECT_EQ(read_queue("0p")->packets, 0u);
  for (const char* wrong : {"", "p", "50", "50p/", "50p/50p", "50q", "-1p", "99999999999p"}) {
    EXPECT_FALSE(read_queue(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace tiercast
