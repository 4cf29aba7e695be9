#include "base/json_row.h"

#include <gtest/gtest.h>

#include <limits>

namespace tiercast {
namespace {

TEST(JsonRow, HoldsTextsAndNumbers) {
  JsonRow row;
  row.begin(123456789012345678);
  row.text("kind", "join");
  row.number("rank", 2);
  row.number("latency_us", 1234.5);
  EXPECT_EQ(row.end(),
            "{\"time_ns\":123456789012345678,\"kind\":\"join\",\"rank\":2,"
            "\"latency_us\":1234.5}\n");
  row.begin(-1);
  EXPECT_EQ(row.end(), "{\"time_ns\":-1}\n");
}

TEST(JsonRow, SaysNumbersExactly) {
  JsonRow row;
  row.begin(0);
  row.number("third", 0.1);
  row.number("largest", 999'999'999'999'999.0);
  row.number("exponent", 1e15);
  row.number("zero", -0.0);
  row.number("none", std::numeric_limits<double>::infinity());
  EXPECT_EQ(row.end(),
            "{\"time_ns\":0,\"third\":0.1,\"largest\":999999999999999,"
            "\"exponent\":1000000000000000,\"zero\":-0,\"none\":null}\n");
}

TEST(JsonRow, EscapesWhatEndsAText) {
  JsonRow row;
  row.begin(0);
  row.text("na\"me", "a\\b\n\x01 c");
  EXPECT_EQ(row.end(), "{\"time_ns\":0,\"na\\\"me\":\"a\\\\b\\u000a\\u0001 c\"}\n");
}

}  // namespace
}  // namespace tiercast
