#include "dataplane/delay_line/delay_line.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>

#include "dataplane/delay_line/options.h"

namespace tiercast::delay_line {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text(std::span<const std::byte> frame) {
  return {reinterpret_cast<const char*>(frame.data()), frame.size()};
}

TEST(DelayLine, FramesComeOutInOrderExactlyTheDelayLater) {
  DelayLine line(5'000'000);
  EXPECT_FALSE(line.next_due());
  line.put(bytes("first"), 100);
  line.put(bytes("second"), 200);
  EXPECT_EQ(line.next_due(), 5'000'100);
  EXPECT_FALSE(line.take(5'000'099));
  // A late caller gets each frame together with the time at which it was due.
  auto out = line.take(9'000'000);
  ASSERT_TRUE(out);
  EXPECT_EQ(text(out->frame), "first");
  EXPECT_EQ(out->due_ns, 5'000'100);
  out = line.take(9'000'000);
  ASSERT_TRUE(out);
  EXPECT_EQ(text(out->frame), "second");
  EXPECT_EQ(out->due_ns, 5'000'200);
  EXPECT_FALSE(line.next_due());
}

TEST(DelayLine, BuffersAreFilledAnewWithTheirOwnLength) {
  DelayLine line(0);
  for (const std::string_view frame : {"a long frame", "short", "", "a longer frame again"}) {
    line.put(bytes(frame), 7);
    const auto out = line.take(7);
    ASSERT_TRUE(out);
    EXPECT_EQ(text(out->frame), frame);
  }
}

TEST(DelayLine, OptionsOfBothForms) {
  const LineOption same = parse_line("in1,eth1,5ms");
  EXPECT_EQ(same.a_to_b_ns, 5'000'000);
  EXPECT_EQ(same.b_to_a_ns, 5'000'000);
  const LineOption two = parse_line("in1,eth1,2.5ms,0");
  EXPECT_EQ(two.a, "in1");
  EXPECT_EQ(two.b, "eth1");
  EXPECT_EQ(two.a_to_b_ns, 2'500'000);
  EXPECT_EQ(two.b_to_a_ns, 0);
}

TEST(DelayLine, OptionErrorsNameTheValue) {
  for (const std::string_view wrong :
       {"in1,eth1", "in1,in1,5ms", ",eth1,5ms", "in1,eth1,5", "in1,eth1,-5ms", "in1,eth1,61s",
        "a-name-of-sixteen,eth1,5ms", "in1,eth1,1ms,2ms,3ms"}) {
    try {
      parse_line(wrong);
      FAIL() << wrong;
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find(wrong), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tiercast::delay_line
