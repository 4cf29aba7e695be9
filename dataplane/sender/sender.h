// The sender: the sessions on one port, with one worker per lcore.
//
// Threads: see README.md. Any thread except the workers' own may call the methods below. They lock
// each other out, but never a worker, which they reach through rings.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/telemetry.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/sender/frames/sender_addresses.h"
#include "dataplane/sender/metrics/statistics.h"
#include "dataplane/sender/sessions/session_table.h"

namespace tiercast::sender {

struct SenderSettings {
  SenderAddresses addresses;
  std::string payload;        // "": the pattern; a file; or "-": standard input
  bool poll = false;          // otherwise the workers sleep between departures
  int realtime = 0;           // SCHED_FIFO priority of the workers; 0: ordinary scheduling
  bool trace = false;         // whether tend() takes the cores' records
  bool name_sessions = true;  // whether these name their session
  std::uint32_t session_capacity = 1024;  // sessions that may run at the same time, over all
                                          // workers
  std::uint32_t largest_frame = 9018;     // bytes, including the tag, that a session may send
  Duration ramp = Duration::zero();       // time over which the sessions of one start_sessions()
                                          // are spread
};

class Sender {
 public:
  // `port` must outlive the object. Nothing runs before run(). ConfigError: no memory, or the
  // payload cannot be read.
  Sender(const SenderSettings& options, Port& port);
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // run() starts the threads. stop() ends all sessions and waits for the threads; the counts are
  // then final.
  void run();
  void stop();

  // Sessions start, change and stop while others run. The worker does it between two packets, and
  // the call returns once the worker has the order. ConfigError: a session of this number runs
  // already, or does not run; there is no room; or the scheme refuses. Either all requests start or
  // none. If they need the numbers or the room of ending sessions, the call waits for these for up
  // to two seconds.
  void start_sessions(const std::vector<SessionRequest>& requests);
  void set_membership(std::uint16_t session, int top_rank);
  void stop_session(std::uint16_t session);

  // To be called several times a second. Passes the cores' records since the last call to
  // `telemetry`, in time order for each worker, and frees what ended sessions held. If a worker has
  // failed, throws std::runtime_error with the reason.
  void tend(agent::Telemetry* telemetry);
  // While the link is down, packets that become due are dropped. The link counts as up until the
  // first call.
  void set_link(bool up);

  // Takes a snapshot. `layers`: include those of every layer.
  Statistics statistics(bool layers) const;
  // The final figures of the sessions that have ended since the last call.
  std::vector<LayerStatistics> take_ended_layers();
  // Whether there is at least one session, and all sessions have transferred their object.
  bool finished() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tiercast::sender
