#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocols/base/rng.h"
#include "protocols/base/serial.h"
#include "protocols/base/units.h"

namespace tiercast {
namespace {

TEST(Units, RatesParseInAllTheirForms) {
  EXPECT_DOUBLE_EQ(parse_rate("6Mbit/s").bytes_per_second(), 750'000);
  EXPECT_DOUBLE_EQ(parse_rate("300kbit/s").bytes_per_second(), 37'500);
  EXPECT_DOUBLE_EQ(parse_rate("1.5Gbit/s").bytes_per_second(), 187.5e6);
  EXPECT_DOUBLE_EQ(parse_rate("800bit/s").bytes_per_second(), 100);
  EXPECT_DOUBLE_EQ(parse_rate("2500B/s").bytes_per_second(), 2500);
}

TEST(Units, DurationsParseInAllTheirForms) {
  EXPECT_EQ(parse_duration("5ms").ns(), 5'000'000);
  EXPECT_EQ(parse_duration("1.5s").ns(), 1'500'000'000);
  EXPECT_EQ(parse_duration("200us").ns(), 200'000);
  EXPECT_EQ(parse_duration("30ns").ns(), 30);
}

TEST(Units, WhatIsFormattedParsesToTheSame) {
  for (const char* text : {"6Mbit/s", "300kbit/s", "1.5Gbit/s", "800bit/s"}) {
    EXPECT_EQ(format_rate(parse_rate(text)), text);
  }
  for (const char* text : {"5ms", "1.5s", "200us", "30ns"}) {
    EXPECT_EQ(format_duration(parse_duration(text)), text);
  }
}

TEST(Units, WrongTextsAreRefusedWithTheTextAndTheValidForms) {
  for (const char* text :
       {"", "6", "Mbit/s", "-6Mbit/s", "6 Mbit/s", "6Mbit", "nanMbit/s", "infB/s"}) {
    try {
      parse_rate(text);
      ADD_FAILURE() << text << " was taken";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("'" + std::string(text) + "'"),
                                               testing::HasSubstr("6Mbit/s")));
    }
  }
  for (const char* text : {"", "5", "ms", "-5ms", "5m", "5 ms"}) {
    EXPECT_THROW(parse_duration(text), ConfigError) << text;
  }
}

TEST(Units, TimeSaturatesInsteadOfWrapping) {
  EXPECT_TRUE((Time::never() + Duration::milliseconds(1)).is_never());
  EXPECT_TRUE((Time::nanoseconds(1) + Duration::infinite()).is_never());
  EXPECT_EQ(Duration::seconds(1e30), Duration::infinite());
  EXPECT_EQ(Rate::zero().time_for(1000), Duration::infinite());
  EXPECT_EQ(Rate::mbit_per_second(8).time_for(1000), Duration::milliseconds(1));
}

TEST(Serial, ComparesAcrossTheWrap) {
  EXPECT_EQ(serial_difference(std::uint32_t{2}, std::uint32_t{0xfffffffe}), 4);
  EXPECT_TRUE(serial_newer(std::uint32_t{0}, std::uint32_t{0xffffffff}));
  EXPECT_FALSE(serial_newer(std::uint32_t{0xffffffff}, std::uint32_t{0}));
  EXPECT_FALSE(serial_newer(std::uint32_t{7}, std::uint32_t{7}));
  EXPECT_TRUE(serial_newer(std::uint16_t{1}, std::uint16_t{0xffff}));
}

TEST(Rng, RepeatsForTheSameSeedAndStaysInRange) {
  Rng a(7), b(7), c(8);
  bool differs = false;
  for (int i = 0; i < 1000; ++i) {
    const double x = a.uniform();
    EXPECT_EQ(x, b.uniform());
    differs |= x != c.uniform();
    EXPECT_GE(x, 0);
    EXPECT_LT(x, 1);
    EXPECT_LT(a.below(6), 6u);
    b.below(6);
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace tiercast
