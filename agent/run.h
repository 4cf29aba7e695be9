// The life of an agent: attach, wait for Start, run, report, end. The same for senders and
// receivers, whatever moves their packets.
//
//   without a lab   starts at once; a sender takes every layer as subscribed;
//                   ends by --duration, a signal, or when its object is transferred
//   with a lab      starts at Start; ends by Stop, --duration, a signal, or when the lab is lost
//                   (status 1)
//
// Each second, and at the end, it records `pause`: longest_us, the longest time since the last one
// in which its loop did not turn. The loop turns every 100 ms at least, so a longer one says that
// the process was stopped, or had no CPU.
#pragma once

#include <string>
#include <vector>

#include "agent/event_loop.h"
#include "agent/lab_client.h"
#include "agent/options.h"
#include "agent/telemetry.h"

namespace tiercast::agent {

// What an agent does between start and end. Called on the loop's thread only.
class Activity {
 public:
  virtual ~Activity() = default;
  virtual void start(Time now) = 0;
  // Senders: the highest rank that anybody subscribes to; -1: nobody.
  // Only between start() and stop().
  virtual void membership(Time now, int top_rank) = 0;
  // Does all that is due. Called after every wake-up of the loop.
  virtual void run(Time now) = 0;
  // When run() wants to be called at the latest.
  virtual Time next_deadline() const = 0;
  // Writes its records: every kReportInterval, with `second` set each fifth time; and once
  // before stop(), with `last` set.
  virtual void report(Time now, bool second, bool last) = 0;
  // A reliable transfer is over: an agent without a lab ends.
  virtual bool finished() const { return false; }
  // Leaves the session. Nothing is called afterwards.
  virtual void stop(Time now) = 0;
};

inline constexpr Duration kReportInterval = Duration::milliseconds(200);

// Returns the exit status: 0, or 1 if the lab was lost (the reason goes to standard error).
// `loop` must already watch what `activity` needs.
int run_agent(const AgentOptions& options, v1::Role role, EventLoop& loop, Telemetry& telemetry,
              Activity& activity);

// The body of an agent's main(): `run` gets the arguments without the program's name and returns
// the exit status. What it throws is printed after `program`: 2 for ConfigError, 1 for others.
int run_main(const char* program, int argc, char** argv,
             int (*run)(const std::vector<std::string>& arguments));

}  // namespace tiercast::agent
