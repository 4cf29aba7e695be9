#include "dataplane/sender/sessions/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "tests/dataplane/sender/samples.h"
#include "tests/support/temporary_folder.h"

namespace tiercast::sender {
namespace {

using testing::HasSubstr;

TEST(SenderSchedule, WritesEveryPacketAndTheHistogram) {
  const TemporaryFolder folder;
  const std::string prefix = folder.file("plan");
  SessionTable::Settings settings;
  settings.addresses.own = kOwn;
  const ScheduleSummary summary =
      write_schedule({rlm(1, 1000, 200), rlm(2, 500, 300)}, settings, Duration::milliseconds(1),
                     Duration::milliseconds(100), prefix);
  EXPECT_NEAR(static_cast<double>(summary.packets), 8 * (100 + 50), 8);
  EXPECT_EQ(summary.gaps.count(), summary.packets - 16);
  std::ifstream pcap(prefix + ".pcap", std::ios::binary | std::ios::ate);
  EXPECT_EQ(static_cast<std::uint64_t>(pcap.tellg()),
            24 + summary.packets * (16 + 14) + summary.bytes);
  std::ifstream json(prefix + ".json");
  const std::string text((std::istreambuf_iterator<char>(json)), {});
  EXPECT_THAT(text, HasSubstr("\"packets\":" + std::to_string(summary.packets)));
  EXPECT_THROW(write_schedule({rlm(1, 1000)}, settings, Duration::zero(), Duration::milliseconds(1),
                              "/nonexistent/plan"),
               ConfigError);
}

}  // namespace
}  // namespace tiercast::sender
