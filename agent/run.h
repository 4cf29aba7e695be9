// How an agent runs: it attaches, waits for Start, runs, reports and ends. Senders and receivers do
// this alike, whatever moves their packets.
//
//   without a lab   starts at once; a sender takes all layers as subscribed;
//                   ends by --duration, a signal, or when its object has been transferred
//   with a lab      starts at Start; leaves its session at Leave, until the next Start; ends by
//   Stop,
//                   --duration, a signal, or when the lab is lost (status 1)
//
// Every second of the run, and at the end, it writes a record `pause` with longest_us: the longest
// time since the last such record in which its loop did not turn. The loop turns at least every 100
// ms, so a longer time means that the process was stopped or had no CPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/digest.h"
#include "agent/event_loop.h"
#include "agent/lab_client.h"
#include "agent/options.h"
#include "agent/telemetry.h"

namespace tiercast::agent {

// What an agent does between start and end. Called only on the loop's thread.
class Activity {
 public:
  virtual ~Activity() = default;
  // What the lab says of the session, before start(). Not called without a lab. ConfigError: it is
  // not valid.
  virtual void welcome(const v1::Welcome&) {}
  // For receivers: what the lab says of the object that they will have.
  virtual void object(const Digest&) {}
  // Joins the session. A receiver may join again after stop(); it is then a new member.
  virtual void start(Time now) = 0;
  // For senders: the highest rank that has a subscriber; -1: nobody subscribes. Called only between
  // start() and stop().
  virtual void membership(Time now, int top_rank) = 0;
  // Does everything that is due. Called after every wake-up of the loop, also before start() and
  // after stop(), when all that can be due is to discard what arrives.
  virtual void run(Time now) = 0;
  // The latest time at which run() must be called.
  virtual Time next_deadline() const = 0;
  // Writes the activity's records. Called every kReportInterval, every fifth time with `second`
  // set, and once before stop(), with `last` set.
  virtual void report(Time now, bool second, bool last) = 0;
  // Whether a reliable transfer is complete. An agent without a lab then ends.
  virtual bool finished() const { return false; }
  // Leaves the session.
  virtual void stop(Time now) = 0;
};

inline constexpr Duration kReportInterval = Duration::milliseconds(200);

// How long after its start an agent of this name reports first to a lab: up to kReportInterval. The
// agents of a run, which start together, report one after another: all at once they would keep the
// CPUs from switches and senders for milliseconds.
Duration first_report(std::string_view name);

// Returns the exit status: 0, or 1 if the lab was lost (the reason is printed on standard error).
// `loop` must already watch the descriptors that `activity` needs.
int run_agent(const AgentOptions& options, v1::Role role, EventLoop& loop, Telemetry& telemetry,
              Activity& activity);

// The body of an agent's main(). `run` gets the arguments without the program's name and returns
// the exit status. An exception is printed after `program`, and the status is 2 for ConfigError and
// 1 for others, as where standard output could not be written.
int run_main(const char* program, int argc, char** argv,
             int (*run)(const std::vector<std::string>& arguments));

}  // namespace tiercast::agent
