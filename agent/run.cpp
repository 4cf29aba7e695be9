#include "agent/run.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <string_view>

#include "agent/clock.h"
#include "base/standard_output.h"
#include "base/turn_watch.h"

namespace tiercast::agent {
namespace {

v1::Hello make_hello(const AgentOptions& options, v1::Role role) {
  v1::Hello hello;
  hello.set_role(role);
  hello.set_name(options.name);
  hello.set_scheme(options.scheme);
  hello.set_session(options.session.session);
  hello.set_id(options.session.self_id);
  hello.set_version(2);
  if (role == v1::ROLE_SENDER && options.object) {
    hello.set_object_sha256(options.object->data(), options.object->size());
  }
  return hello;
}

constexpr std::size_t kSteps = 1000;  // of first_report()

std::size_t hash_of(std::string_view name) { return std::hash<std::string_view>()(name); }

class Runner {
 public:
  Runner(const AgentOptions& options, v1::Role role, EventLoop& loop, Telemetry& telemetry,
         Activity& activity)
      : options_(options), role_(role), loop_(loop), telemetry_(telemetry), activity_(activity) {}

  int run() {
    set_priority();
    turns_.turn(monotonic_now().ns());
    loop_.watch_signals([this](int) { ending_ = true; });
    if (options_.lab.empty()) {
      start(monotonic_now());
      if (role_ == v1::ROLE_SENDER) {
        activity_.membership(monotonic_now(), static_cast<int>(options_.session.layers) - 1);
      }
    } else {
      lab_.emplace(options_.lab, make_hello(options_, role_), options_.access,
                   options_.lab_patience);
      loop_.watch(lab_->descriptor(), [this] { take_lab_events(); });
    }
    while (!ending_) {
      loop_.wait(next_deadline());
      const Time now = monotonic_now();
      turns_.turn(now.ns());
      step(now);
    }
    leave(monotonic_now());
    flush();
    if (lab_) {
      lab_->finish();
      if (const std::uint64_t lost = lab_->dropped_records(); lost > 0) {
        fmt::print(stderr, "{}: {} records were given up: no lab has acknowledged them in time\n",
                   options_.name, lost);
      }
    }
    return status_;
  }

 private:
  // Sets the priority of this thread. It sleeps between events, so it seldom holds the processor
  // for long; under a flood it takes turns with others of its priority. Threads that it starts do
  // not inherit the priority.
  void set_priority() const {
    if (options_.realtime == 0) return;
    sched_param parameter{};
    parameter.sched_priority = options_.realtime;
    if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &parameter) != 0) {
      fmt::print(stderr,
                 "{}: no real-time priority ({}): departures are late when the machine is busy\n",
                 options_.name, std::strerror(errno));
    }
  }

  void begin(Time now, Time sent_at) {
    if (begun_) return;
    begun_ = true;
    // A pause before the run does not affect it, but a late start does.
    turns_.restart((now - sent_at).ns());
    end_ = options_.duration == Duration::infinite() ? Time::never() : now + options_.duration;
    next_report_ = now + (lab_ ? first_report(options_.name) : kReportInterval);
  }

  void start(Time sent_at) {
    if (present_) return;
    const Time now = monotonic_now();
    begin(now, sent_at);
    present_ = true;
    activity_.start(now);
  }

  void leave(Time now) {
    if (!begun_) return;
    report(now, true, true);
    if (!present_) return;
    present_ = false;
    activity_.stop(now);
  }

  Time next_deadline() const {
    const Time beat = Time::nanoseconds(turns_.next_beat_ns());
    return std::min({activity_.next_deadline(), next_report_, beat, end_});
  }

  void report(Time now, bool second, bool last) {
    if (second) {
      telemetry_.record(now, "pause",
                        {{"longest_us", static_cast<double>(turns_.take_longest_ns()) / 1000}});
    }
    if (present_) activity_.report(now, second, last);
  }

  void step(Time now) {
    activity_.run(now);
    if (now >= next_report_) {
      ++reports_;
      report(now, reports_ % kReportsPerSecond == 0, false);
      telemetry_.flush();
      if (reports_ % kReportsPerSecond == hand_over_ || telemetry_.waiting() > kMostWaiting)
        flush();
      // Reports keep their times. Those that a stall has skipped are left out.
      while (next_report_ <= now) next_report_ = next_report_ + kReportInterval;
    }
    if (now >= end_ || (!lab_ && activity_.finished())) ending_ = true;
  }

  void flush() {
    telemetry_.flush();
    if (lab_) lab_->send(telemetry_.take_batch());
  }

  void take_lab_events() {
    while (auto event = lab_->poll()) {
      std::visit([this](const auto& e) { handle(e); }, *event);
    }
  }

  void handle(const LabWelcome& welcome) {
    const std::string keys = welcome.said.keys().SerializeAsString();
    if (!begun_) {
      keys_ = keys;
      activity_.welcome(welcome.said);
    } else if (keys != keys_) {
      handle(LabLost{options_.lab + ": the lab that returned has other keys"});
    }
  }
  void handle(const LabObject& object) { activity_.object(object.sha256); }
  void handle(const LabStart& said) {
    if (present_) return;
    start(said.sent_at);
    activity_.membership(monotonic_now(), top_rank_);
  }
  void handle(const LabLeave& said) {
    const Time now = monotonic_now();
    if (begun_) {
      leave(now);
      flush();
    } else {
      begin(now, said.sent_at);
    }
  }
  void handle(const LabStop&) { ending_ = true; }
  void handle(const LabMembership& membership) {
    if (membership.session != options_.session.session) return;
    top_rank_ = std::clamp(membership.top_rank, -1, static_cast<int>(options_.session.layers) - 1);
    if (present_) activity_.membership(monotonic_now(), top_rank_);
  }
  void handle(const LabLost& lost) {
    if (ending_) return;
    fmt::print(stderr, "{}: lost the lab at {}\n", options_.name, lost.reason);
    status_ = 1;
    ending_ = true;
  }

  static constexpr std::uint64_t kReportsPerSecond = 5;
  static constexpr int kMostWaiting = 2000;  // records, some 200 kB
  const AgentOptions& options_;
  const v1::Role role_;
  EventLoop& loop_;
  Telemetry& telemetry_;
  Activity& activity_;
  std::optional<LabClient> lab_;
  bool begun_ = false;    // the run
  bool present_ = false;  // in the session
  bool ending_ = false;
  int status_ = 0;
  int top_rank_ = -1;  // as last told by the lab
  std::string keys_;   // with which the session runs, as the lab said them
  Time end_ = Time::never();
  Time next_report_ = Time::never();
  TurnWatch turns_;
  std::uint64_t reports_ = 0;
  // The lab gets records once a second, as each batch wakes this program's threads and the lab,
  // however long it is; and each agent's at a time of its own.
  const std::uint64_t hand_over_ = hash_of(options_.name) / kSteps % kReportsPerSecond;
};

}  // namespace

Duration first_report(std::string_view name) {
  return kReportInterval * (static_cast<double>(hash_of(name) % kSteps + 1) / kSteps);
}

int run_agent(const AgentOptions& options, v1::Role role, EventLoop& loop, Telemetry& telemetry,
              Activity& activity) {
  return Runner(options, role, loop, telemetry, activity).run();
}

int run_main(const char* program, int argc, char** argv,
             int (*run)(const std::vector<std::string>& arguments)) {
  signal(SIGPIPE, SIG_IGN);  // if the reader of the trace goes away, write() reports it as an error
  try {
    return end_output(program, run({argv + 1, argv + argc}));
  } catch (const ConfigError& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return 1;
  }
}

}  // namespace tiercast::agent
