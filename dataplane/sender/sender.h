// The sender: sessions on some ports, with one worker per lcore. Each worker sends through one
// port; each session runs on one worker.
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

struct SenderPort {
  dpdk::Port* port = nullptr;
  SenderAddresses addresses;
};

struct SenderSettings {
  std::string payload;        // "": the pattern; a file; or "-": standard input
  bool poll = false;          // otherwise the workers sleep between departures
  Duration quantum;           // see Worker::Settings
  int realtime = 0;           // SCHED_RR priority of the workers; 0: ordinary scheduling
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
  // Workers and ports in turn: worker i sends through port i modulo their number, by the next of
  // its queues (queues()). The ports must outlive the object. Nothing runs before run().
  // ConfigError: fewer workers than ports, no memory, or the payload cannot be read.
  Sender(const SenderSettings& options, const std::vector<SenderPort>& ports);
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // How many of `workers` send through port `index` of `ports`: the queues that it needs.
  static std::uint16_t queues(std::size_t workers, std::size_t ports, std::size_t index) {
    return static_cast<std::uint16_t>(workers / ports + (index < workers % ports ? 1 : 0));
  }

  // run() starts the threads. stop() ends all sessions and waits for the threads; the counts are
  // then final.
  void run();
  void stop();

  // Sessions start, change and stop while others run. A session goes to the worker with the fewest
  // layers, of its port if it names one. The worker does it between two packets, and
  // the call returns once the worker has the order. ConfigError: a session of this number runs
  // already, or does not run; there is no room, or no such port; or the scheme refuses. Either all
  // requests start or none. If they need the numbers or the room of ending sessions, the call waits
  // for these for up to two seconds.
  void start_sessions(const std::vector<SessionRequest>& requests);
  void set_membership(std::uint16_t session, int top_rank);
  void stop_session(std::uint16_t session);

  // To be called several times a second. Passes the cores' records since the last call to
  // `telemetry`, in time order for each worker, and frees what ended sessions held. If a worker has
  // failed, throws std::runtime_error with the reason.
  void tend(agent::Telemetry* telemetry);
  // While a port's link is down, packets that become due on it are dropped. It counts as up until
  // the first call.
  void set_link(std::size_t port, bool up);

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
