#include "agent/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "agent/clock.h"
#include "tests/agent/lab.h"

namespace tiercast::agent {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class Probe : public Activity {
 public:
  explicit Probe(Telemetry& telemetry) : telemetry_(telemetry) {}

  void start(Time) override {
    calls.push_back("start");
    std::this_thread::sleep_for(blocks);
  }
  void membership(Time, int top_rank) override {
    calls.push_back("membership " + std::to_string(top_rank));
  }
  void run(Time) override { ++runs; }
  Time next_deadline() const override { return Time::never(); }
  void report(Time now, bool, bool last) override {
    reports.push_back(now);
    telemetry_.record(now, "probe", {});
    if (last) calls.push_back("last report");
    if (reports.size() == signal_after) kill(getpid(), SIGTERM);
  }
  bool finished() const override { return finished_after > 0 && reports.size() >= finished_after; }
  void stop(Time) override { calls.push_back("stop"); }

  std::vector<std::string> calls;
  int runs = 0;
  std::vector<Time> reports;
  std::size_t finished_after = 0, signal_after = 0;  // reports; 0: never
  std::chrono::milliseconds blocks{0};               // keeps the loop from turning for this long

 private:
  Telemetry& telemetry_;
};

struct Result {
  int status;
  std::vector<std::string> calls;
  std::vector<Time> reports;
};

Result run(AgentOptions options, v1::Role role, std::size_t finished_after = 0) {
  options.name = "probe";
  EventLoop loop;
  Telemetry telemetry("", !options.lab.empty());
  Probe probe(telemetry);
  probe.finished_after = finished_after;
  const int status = run_agent(options, role, loop, telemetry, probe);
  return {status, probe.calls, probe.reports};
}

AgentOptions endless() {
  AgentOptions options;
  options.session.layers = 3;
  options.duration = Duration::infinite();
  return options;
}

TEST(AgentRun, AloneASenderTakesEveryLayerAsSubscribed) {
  const Time before = monotonic_now();
  const Result result = run(endless(), v1::ROLE_SENDER, 4);
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.calls, ElementsAre("start", "membership 2", "last report", "stop"));
  // One every fifth of a second, never early, and the last one. A stall of the machine skips some.
  ASSERT_EQ(result.reports.size(), 5u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_GE(result.reports[i], before + kReportInterval * static_cast<double>(i + 1)) << i;
  }
  EXPECT_GE(result.reports[4], result.reports[3]);
}

// Two hundred agents, in tenths of the interval: about twenty in each.
TEST(AgentRun, AgentsOfALabDoNotReportAllAtOnce) {
  std::array<int, 10> agents{};
  for (int i = 1; i <= 200; ++i) {
    const Duration first = first_report("h" + std::to_string(i));
    EXPECT_GT(first, Duration::zero());
    EXPECT_LE(first, kReportInterval);
    const auto tenth = static_cast<std::size_t>(10 * (first / kReportInterval));
    ++agents[std::min<std::size_t>(tenth, 9)];
  }
  EXPECT_THAT(agents, Each(testing::AllOf(testing::Ge(5), testing::Le(45))));
}

TEST(AgentRun, AloneAReceiverHasNoMembershipAndEndsAfterItsDuration) {
  AgentOptions options = endless();
  options.duration = Duration::milliseconds(1);
  const Time before = monotonic_now();
  const Result result = run(options, v1::ROLE_RECEIVER);
  EXPECT_THAT(result.calls, ElementsAre("start", "last report", "stop"));
  EXPECT_GE(result.reports.back(), before + options.duration);
}

TEST(AgentRun, SaysForHowLongItDidNotRun) {
  EventLoop loop;
  Telemetry telemetry("", true);
  Probe probe(telemetry);
  probe.blocks = std::chrono::milliseconds(300);
  probe.signal_after = 1;
  run_agent(endless(), v1::ROLE_SENDER, loop, telemetry, probe);
  double longest_us = 0;
  const v1::Records batch = telemetry.take_batch();
  for (const v1::Record& record : batch.records()) {
    if (record.kind() == "pause") longest_us = std::max(longest_us, record.fields(0).value());
  }
  EXPECT_GE(longest_us, 300'000);
}

TEST(AgentRun, ASignalEndsItWithStatus0) {
  EventLoop loop;
  Telemetry telemetry("", false);
  Probe probe(telemetry);
  probe.signal_after = 1;
  EXPECT_EQ(run_agent(endless(), v1::ROLE_SENDER, loop, telemetry, probe), 0);
  EXPECT_EQ(probe.reports.size(), 2u);  // the one of the signal, and the last one
  EXPECT_EQ(probe.calls.back(), "stop");
}

TEST(AgentRun, AStartThatItHeardLateIsAPause) {
  double longest_us = 0;
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    stream.Write(TestLab::welcome());
    stream.Write(TestLab::start(Duration::milliseconds(300)));
    stream.Write(TestLab::stop());
    while (TestLab::read(stream, message)) {
      for (const v1::Record& record : message.records().records()) {
        if (record.kind() == "pause") longest_us = std::max(longest_us, record.fields(0).value());
      }
    }
    return grpc::Status::OK;
  });
  AgentOptions options = endless();
  options.lab = lab.address();
  EXPECT_EQ(run(options, v1::ROLE_RECEIVER).status, 0);
  lab.wait();
  EXPECT_GE(longest_us, 300'000);
}

TEST(AgentRun, WithALabItStartsAtStartAndEndsAtStop) {
  int records = 0, pauses = 0;
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    stream.Write(TestLab::membership(0, 1));  // before Start: kept until then
    stream.Write(TestLab::welcome());
    stream.Write(TestLab::start());
    stream.Write(TestLab::membership(4, 0));  // of another session
    stream.Write(TestLab::membership(0, 7));  // more than the session's layers
    stream.Write(TestLab::membership(0, -1));
    stream.Write(TestLab::stop());
    while (TestLab::read(stream, message)) {
      for (const v1::Record& record : message.records().records()) {
        ++(record.kind() == "pause" ? pauses : records);
      }
    }
    return grpc::Status::OK;
  });
  AgentOptions options = endless();
  options.lab = lab.address();
  const Result result = run(options, v1::ROLE_SENDER);
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.calls, ElementsAre("start", "membership 1", "membership 2", "membership -1",
                                        "last report", "stop"));
  lab.wait();
  EXPECT_EQ(records, static_cast<int>(result.reports.size()));  // nothing is lost at the end
  EXPECT_GE(pauses, 1);
}

TEST(AgentRun, WithALabItLeavesAndComesBack) {
  std::vector<std::string> kinds;
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    for (const v1::ToAgent& order :
         {TestLab::welcome(), TestLab::start(), TestLab::leave(), TestLab::leave(),
          TestLab::start(), TestLab::start(), TestLab::leave(), TestLab::stop()}) {
      stream.Write(order);
    }
    while (TestLab::read(stream, message)) {
      for (const v1::Record& record : message.records().records()) kinds.push_back(record.kind());
    }
    return grpc::Status::OK;
  });
  AgentOptions options = endless();
  options.lab = lab.address();
  const Result result = run(options, v1::ROLE_RECEIVER);
  EXPECT_EQ(result.status, 0);
  const std::vector<std::string> once = {"start", "membership -1", "last report", "stop"};
  std::vector<std::string> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(result.calls, twice);
  lab.wait();
  EXPECT_EQ(kinds.back(), "pause");  // absent at the end
}

TEST(AgentRun, BeforeItsStartItReportsPausesAlone) {
  std::vector<std::string> kinds;
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    stream.Write(TestLab::welcome());
    stream.Write(TestLab::leave());
    while (kinds.size() < 2 && TestLab::read(stream, message)) {
      for (const v1::Record& record : message.records().records()) kinds.push_back(record.kind());
    }
    stream.Write(TestLab::stop());
    while (TestLab::read(stream, message)) {
    }
    return grpc::Status::OK;
  });
  AgentOptions options = endless();
  options.lab = lab.address();
  const Result result = run(options, v1::ROLE_SENDER);
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.calls, testing::IsEmpty());
  lab.wait();
  EXPECT_THAT(kinds, Each("pause"));
}

TEST(AgentRun, ALostLabEndsItWithStatus1AndSaysWhy) {
  TestLab lab([](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    stream.Write(TestLab::start());
    return grpc::Status(grpc::StatusCode::INTERNAL, "gone");
  });
  AgentOptions options = endless();
  options.lab = lab.address();
  testing::internal::CaptureStderr();
  const Result result = run(options, v1::ROLE_RECEIVER);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("probe: lost the lab"), HasSubstr("gone")));
  EXPECT_EQ(result.calls.back(), "stop");
}

}  // namespace
}  // namespace tiercast::agent
