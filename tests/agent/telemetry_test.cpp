#include "agent/telemetry.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <system_error>

#include "tests/support/temporary_folder.h"

namespace tiercast::agent {
namespace {

std::string slurp(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(AgentTelemetry, RecordsAreJsonLines) {
  const TemporaryFolder folder;
  const std::string path = folder.file("records.jsonl");
  Telemetry telemetry(path, false);
  telemetry.record(Time::nanoseconds(123456789012345678), "join",
                   {{"rank", 2.0}, {"latency_us", 1234.5}});
  telemetry.record(Time::zero(), "odd", {{"value", std::numeric_limits<double>::infinity()}});
  telemetry.flush();
  EXPECT_EQ(slurp(path),
            "{\"time_ns\":123456789012345678,\"kind\":\"join\",\"rank\":2,\"latency_us\":1234.5}\n"
            "{\"time_ns\":0,\"kind\":\"odd\",\"value\":null}\n");
}

TEST(AgentTelemetry, BatchesHoldTheRecordsSinceTheLastOne) {
  Telemetry telemetry("", true);
  telemetry.record(Time::nanoseconds(1), "a", {{"x", 1.0}});
  telemetry.record(Time::nanoseconds(2), "b", {});
  const v1::Records first = telemetry.take_batch();
  ASSERT_EQ(first.records_size(), 2);
  EXPECT_EQ(first.records(0).kind(), "a");
  EXPECT_EQ(first.records(0).fields(0).name(), "x");
  EXPECT_EQ(first.records(1).time_ns(), 2);
  EXPECT_EQ(telemetry.take_batch().records_size(), 0);
}

// As of a disk that is full only for a while.
TEST(AgentTelemetry, RecordsThatWereLostAreAnErrorThoughThereIsRoomAgain) {
  const TemporaryFolder folder;
  const std::string path = folder.file("records.jsonl");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  Telemetry telemetry(path, false);
  rlimit full = before;
  full.rlim_cur = 1000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  for (int i = 0; i < 1000; ++i) telemetry.record(Time::nanoseconds(i), "row", {});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old);
  try {
    telemetry.flush();
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), EFBIG);
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
  }
}

TEST(AgentTelemetry, AnUnwritableFileIsAnErrorThatNamesIt) {
  try {
    Telemetry("/nonexistent/trace", false);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/trace"), std::string::npos);
  }
}

}  // namespace
}  // namespace tiercast::agent
