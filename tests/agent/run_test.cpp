#include "agent/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

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

  void start(Time) override { calls.push_back("start"); }
  void membership(Time, int top_rank) override {
    calls.push_back("membership " + std::to_string(top_rank));
  }
  void run(Time) override { ++runs; }
  Time next_deadline() const override { return Time::never(); }
  void report(Time now, bool, bool last) override {
    ++reports;
    telemetry_.record(now, "probe", {});
    if (last) calls.push_back("last report");
  }
  void stop(Time) override { calls.push_back("stop"); }

  std::vector<std::string> calls;
  int runs = 0;
  int reports = 0;

 private:
  Telemetry& telemetry_;
};

struct Result {
  int status;
  std::vector<std::string> calls;
  int reports;
};

Result run(AgentOptions options, v1::Role role) {
  options.name = "probe";
  EventLoop loop;
  Telemetry telemetry("", !options.lab.empty());
  Probe probe(telemetry);
  const int status = run_agent(options, role, loop, telemetry, probe);
  return {status, probe.calls, probe.reports};
}

AgentOptions for_a_second() {
  AgentOptions options;
  options.session.layers = 3;
  options.duration = Duration::milliseconds(1100);
  return options;
}

TEST(AgentRun, AloneASenderTakesEveryLayerAsSubscribed) {
  const Result result = run(for_a_second(), v1::ROLE_SENDER);
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.calls, ElementsAre("start", "membership 2", "last report", "stop"));
  // Five in 1.1 s and the last one; a stall of the machine leaves some out.
  EXPECT_LE(result.reports, 6);
  EXPECT_GE(result.reports, 3);
}

TEST(AgentRun, AloneAReceiverHasNoMembership) {
  AgentOptions options = for_a_second();
  options.duration = Duration::milliseconds(1);
  EXPECT_THAT(run(options, v1::ROLE_RECEIVER).calls, ElementsAre("start", "last report", "stop"));
}

TEST(AgentRun, ASignalEndsItWithStatus0) {
  AgentOptions options = for_a_second();
  options.duration = Duration::infinite();
  EventLoop loop;  // blocks the signals before the alarm thread starts
  std::thread alarm([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    kill(getpid(), SIGTERM);
  });
  Telemetry telemetry("", false);
  Probe probe(telemetry);
  EXPECT_EQ(run_agent(options, v1::ROLE_SENDER, loop, telemetry, probe), 0);
  alarm.join();
  EXPECT_EQ(probe.calls.back(), "stop");
}

TEST(AgentRun, WithALabItStartsAtStartAndEndsAtStop) {
  int records = 0;
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    stream.Write(TestLab::membership(0, 1));  // before Start: kept until then
    stream.Write(TestLab::welcome());
    stream.Write(TestLab::start());
    stream.Write(TestLab::membership(4, 0));  // another session's
    stream.Write(TestLab::membership(0, 7));  // more than there are layers
    stream.Write(TestLab::membership(0, -1));
    stream.Write(TestLab::stop());
    while (stream.Read(&message)) records += message.records().records_size();
    return grpc::Status::OK;
  });
  AgentOptions options = for_a_second();
  options.duration = Duration::infinite();
  options.lab = lab.address();
  const Result result = run(options, v1::ROLE_SENDER);
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.calls, ElementsAre("start", "membership 1", "membership 2", "membership -1",
                                        "last report", "stop"));
  EXPECT_EQ(records, result.reports);  // nothing is lost at the end
}

TEST(AgentRun, ALostLabEndsItWithStatus1AndSaysWhy) {
  TestLab lab([](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    stream.Write(TestLab::start());
    return grpc::Status(grpc::StatusCode::INTERNAL, "gone");
  });
  AgentOptions options = for_a_second();
  options.duration = Duration::infinite();
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
