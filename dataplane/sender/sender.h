// The sender: the sessions on one port, a worker per lcore.
//
// Threads: see README.md. The methods below may be called by any thread but the workers' own; they
// lock among each other and never a worker, to which they speak by rings.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/telemetry.h"
#include "dataplane/sender/port.h"
#include "dataplane/sender/sender_addresses.h"
#include "dataplane/sender/session_table.h"
#include "dataplane/sender/statistics.h"
#include "tiercast/v1/session.pb.h"

namespace tiercast::sender {

struct SenderSettings {
  SenderAddresses addresses;
  std::string payload;                    // "": the pattern; a file, "-": standard input
  bool poll = false;                      // else the workers sleep between departures
  int realtime = 0;                       // priority of the workers under SCHED_FIFO; 0: ordinary
  bool trace = false;                     // tend() will take the cores' records
  bool name_sessions = true;              // in them
  std::uint32_t session_capacity = 1024;  // sessions that may run at once, over all workers
  std::uint32_t largest_frame = 9018;     // bytes, tag included, that a session may send
  Duration ramp = Duration::zero();       // over which the sessions of one start() are spread
};

// The `count` sessions of one SessionSpec. ConfigError names field, value and choices.
std::vector<SessionRequest> requests_of(const v1::SessionSpec& spec);
// From a file in the JSON form of tiercast.v1.SessionList.
v1::SessionList read_sessions(const std::string& path);

class Sender {
 public:
  // `port` must outlive the object. Nothing runs before run(). ConfigError:
  // no memory, or a payload that cannot be read.
  Sender(const SenderSettings& options, Port& port);
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // Starts the threads. stop() ends all sessions and waits for the threads; afterwards the counts
  // are final.
  void run();
  void stop();

  // Sessions start, change and stop while others run. The worker does it between two packets; the
  // call returns when the order is given. ConfigError: a session of this number runs or does not,
  // no room, or what the scheme refuses. All of the requests start or none. Where their numbers, or
  // their room, are those of sessions that are ending it waits for these, two seconds at most.
  void start_sessions(const std::vector<SessionRequest>& requests);
  void set_membership(std::uint16_t session, int top_rank);
  void stop_session(std::uint16_t session);

  // Gives the records of the cores since the last call, in the order of each worker's time, to
  // `telemetry`; frees what ended sessions held. To be called some times a second. What has ended a
  // worker, if anything did, is thrown: std::runtime_error.
  void tend(agent::Telemetry* telemetry);
  // While the link is down what is due is dropped. Up until it is said to be down.
  void set_link(bool up);

  // A snapshot. `layers`: with those of every layer.
  Statistics statistics(bool layers) const;
  // Of sessions that have ended since the last call; their last figures.
  std::vector<LayerStatistics> take_ended_layers();
  // Every session of a reliable scheme has transferred its object, and there is at least one.
  bool finished() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tiercast::sender
