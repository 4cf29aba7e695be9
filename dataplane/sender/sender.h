// The sender: the sessions on one port, a worker per lcore.
//
// Threads: see README.md. Any thread but the workers' own may call the methods below; they
// lock each other out but never a worker, which they reach through rings.
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
  // call returns once the worker has the order. ConfigError: a session of this number runs already
  // or does not run, there is no room, or the scheme refuses. Either all requests start or none. If
  // they need the numbers or the room of ending sessions, it waits up to two seconds for those.
  void start_sessions(const std::vector<SessionRequest>& requests);
  void set_membership(std::uint16_t session, int top_rank);
  void stop_session(std::uint16_t session);

  // To be called several times a second. Gives `telemetry` the cores' records since the last call,
  // in the order of each worker's time, and frees what ended sessions held. Throws
  // std::runtime_error with what ended a worker, if one has ended.
  void tend(agent::Telemetry* telemetry);
  // While the link is down, packets that are due are dropped. It is up until this says otherwise.
  void set_link(bool up);

  // A snapshot. `layers`: with those of every layer.
  Statistics statistics(bool layers) const;
  // The last figures of the sessions that have ended since the last call.
  std::vector<LayerStatistics> take_ended_layers();
  // Every session of a reliable scheme has transferred its object, and there is at least one.
  bool finished() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tiercast::sender
