// The data plane: a single thread, that of a loop, alone touches the engine and the ports. It
// sleeps until a frame arrives, an event of the engine is due, or another thread passes it work
// through call().
//
// With several workers, each has a thread and reads its share of the ports. The engine still takes
// one frame after another, from any of them, under a lock, so registers, meters and counters behave
// as with one thread. The workers share the larger part of the work with packet sockets, the system
// calls: frames that leave are put into their port's outbox, and are sent without that lock, in the
// engine's order, by one thread at a time per port.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/turn_watch.h"
#include "dataplane/accounts/accounts.h"
#include "dataplane/engine/api/switch.h"
#include "dataplane/native/native_code.h"
#include "dataplane/switch/loop.h"
#include "dataplane/switch/options.h"
#include "dataplane/switch/port/frame_port.h"
#include "dataplane/switch/port/interfaces.h"
#include "dataplane/switch/port/link_port.h"
#include "dataplane/trace/hop_trace.h"

namespace tiercast::vswitch {

// What to change about a port's link; an absent value stays as it is. Units as in
// engine::PortConfig.
struct LinkChange {
  std::optional<double> rate_bps;
  std::optional<std::uint32_t> queue_packets;
  std::optional<std::uint64_t> queue_bytes;
  std::optional<std::int64_t> delay_ns;
  std::optional<std::int64_t> rx_delay_ns;
  std::optional<std::optional<engine::RedConfig>> red;  // on arrival; nullopt inside: none
  std::optional<std::optional<engine::PriorityConfig>> priority;  // nullopt inside: one queue
  std::function<void(engine::PortConfig&)> wires;                 // changes `wire` and `rx_wire`
};

struct PortReport {
  std::uint32_t number = 0;
  std::string interface;
  std::int32_t overhead_bytes = 0;
  std::optional<engine::RedConfig> red;  // on arrival
  std::optional<engine::PriorityConfig> priority;
  engine::PortStats stats;  // maxima are since the previous report
  accounts::PortAccounts accounts;
  std::string policy;  // accounts::policy
  std::uint64_t kernel_drops = 0;
  std::uint64_t send_errors = 0;
  std::int64_t late_p50_ns = 0;  // of departures since the previous report
  std::int64_t late_p99_ns = 0;
  std::int64_t late_max_ns = 0;
};

// Figures of the switch as a whole.
struct Health {
  std::int64_t longest_pause_ns = 0;  // longest time since the last report in which the data plane
                                      // did not run
  std::uint64_t packet_ins = 0;       // since the start
  std::uint64_t packet_ins_dropped = 0;
};

// What a switch shares with those that its ports are linked to.
struct Linked {
  std::string name;  // of the switch, as links name it
  Links& links;
  std::shared_ptr<Loop> loop;
};

// The names of a program's registers, for messages.
std::string listed_registers(const engine::Program& program);

class DataPlane : private engine::Output {
 public:
  // Opens a socket for each port. Throws InterfaceError, which names the port. workers: 1 to the
  // number of ports; more than 1 only with ports that have a descriptor. seed: of the random
  // numbers of the program and the queues. depth_register: engine::SwitchOptions::depth_register.
  // linked: needed for ports that are linked, and only for one worker.
  DataPlane(const std::vector<PortOption>& ports, std::uint32_t cpu_port, unsigned workers = 1,
            std::uint64_t seed = 1, std::string depth_register = {},
            const Linked* linked = nullptr);
  ~DataPlane() override;

  // What the program reports to the control plane, as in engine::Output. Called on the data-plane
  // thread; a handler must not block.
  struct Handlers {
    std::function<bool(std::span<const std::byte>)> packet_in;  // returns false if it was dropped
    std::function<bool(const engine::DigestList&)> digest;
    std::function<void(std::string_view, std::span<const engine::TableEntry>)> entries_expired;
  };
  // To be called before start().
  void set_handlers(Handlers handlers);

  // To be called before start(): how often each thread sleeps, as in Loop.
  void limit_sleeps(unsigned in_a_second);

  // To be called before a program is set. Without it programs are interpreted. `builder`, if any,
  // compiles, and must outlive this object.
  void set_native(NativeMode mode, const native::Builder* builder = nullptr) {
    native_ = mode;
    builder_ = builder;
  }

  // To be called before start() and before a program is set. The sink must outlive this object.
  void set_trace(engine::TraceSink* sink) { trace_file_ = sink; }

  // With a shared loop, the thread starts once all its switches are started, and ends at the first
  // stop().
  void start();
  void stop();

  // Runs `work` on the data-plane thread, between packets, waits for it, and rethrows what it
  // throws. While the thread does not run, runs `work` at once. Not to be called from the
  // data-plane thread.
  void call(const std::function<void()>& work);

  // Makes a switch with the same port numbers, but no rates. May be called from any thread. Throws
  // OptionError if the program lacks the depth register.
  std::unique_ptr<engine::Switch> make_switch(std::shared_ptr<const engine::Program> program,
                                              engine::Output& output) const;

  // --- Only inside call(). ---

  // Null until the first set_program(). Its time is the current time.
  engine::Switch* pipeline() { return pipeline_.get(); }
  void set_program(const std::shared_ptr<const engine::Program>& program);
  // Takes a frame from the control plane, which starts with the program's packet_out header.
  void packet_out(std::span<const std::byte> frame);
  // kNotFound or kInvalidArgument.
  engine::Status change_link(std::uint32_t port, const LinkChange& change);
  // Traces packets at these ports from now on, and at no other; none: at no port.
  // kFailedPrecondition: there is no program, or set_trace() was called. kNotFound: a port or a
  // register.
  engine::Status trace_ports(std::map<std::uint32_t, trace::TracedPort> traced);
  trace::HopTrace* hops() { return hops_ ? &*hops_ : nullptr; }
  std::vector<PortReport> report();
  Health take_health();
  engine::SwitchStats totals() const;  // all 0 if there is no pipeline

 private:
  // With several workers: frames on their way from the engine to a port.
  struct Frames {
    std::vector<std::byte> bytes;
    std::vector<std::size_t> sizes;
  };
  struct Outbox {
    std::mutex mutex;  // guards queued
    Frames queued;
    std::atomic<std::size_t> waiting = 0;  // frames in `queued`
    std::mutex sending;                    // held by the thread that sends; guards `leaving`
    Frames leaving;
  };
  struct Port {
    std::uint32_t number;
    engine::PortConfig link;
    std::unique_ptr<FramePort> frames;
    Histogram lateness;
    Outbox outbox{};
    std::size_t untaken = 0;  // frames that were read, and whose memory is still needed
    bool up = true;           // state of the link as last told to the pipeline
  };
  struct Arrival {
    Port* port;
    std::uint32_t order;  // position in the order of reading
    ReceivedFrame frame;
  };
  // A member of a loop, and the ports that it reads. The first worker also has the jobs and the
  // changes of links.
  struct Worker : Loop::Member {
    Worker(DataPlane& of, unsigned its_number, std::shared_ptr<Loop> its_loop)
        : plane(of), number(its_number), loop(std::move(its_loop)) {}
    void readable(std::uint64_t key) override { plane.readable(*this, key); }
    std::int64_t turn(std::int64_t until_ns) override { return plane.turn(*this, until_ns); }
    void woken() override { has_jobs = true; }
    void last_turn() override {
      if (number == 0) plane.end_jobs();
    }

    DataPlane& plane;
    const unsigned number;
    const std::shared_ptr<Loop> loop;
    bool has_jobs = false;       // possibly
    bool links_changed = false;  // possibly
    std::vector<Arrival> arrivals;
  };
  struct Job {
    const std::function<void()>* work;
    std::promise<void> done;
  };

  void transmit(std::uint32_t port, std::span<const std::byte> frame, std::int64_t due_ns) override;
  bool transmit_lent(std::uint32_t port, const engine::LentFrame& frame, bool last,
                     std::int64_t due_ns) override;
  void packet_in(std::span<const std::byte> frame) override;
  bool digest(const engine::DigestList& list) override;
  void entries_expired(std::string_view table,
                       std::span<const engine::TableEntry> entries) override;

  std::unique_ptr<FramePort> open(const PortOption& port, unsigned workers, const Linked* linked);
  void readable(Worker& worker, std::uint64_t key);
  static std::int64_t read(Worker& worker, Port& port);
  std::int64_t turn(Worker& worker, std::int64_t until_ns);
  std::int64_t work_through(Worker& worker, std::int64_t until_ns);
  void take(const Arrival& arrival);
  void send_outbox(Port& port);
  std::int64_t flush();
  void note_departure(Port& port, std::int64_t due_ns);
  void note_departures();
  void run_jobs(std::int64_t until_ns);
  void end_jobs();
  void look_at_links();
  void start_native(const std::shared_ptr<const engine::Program>& program);
  void use_native(const native::Code& code);

  const std::uint32_t cpu_port_;
  const std::uint64_t seed_;
  const std::string depth_register_;
  std::vector<std::unique_ptr<Port>> ports_;  // in the order of the command line
  std::vector<Port*> by_number_;              // null if there is no such port
  std::vector<Port*> keeping_;                // ports that keep frames back until flush()
  std::vector<Port*> unwatched_;              // ports without a descriptor: read at every turn
  bool polls_ = false;                        // some are devices: the loop never sleeps
  std::vector<std::pair<Port*, std::int64_t>> departures_;  // of this turn, if polls_: when due
  std::unique_ptr<engine::Switch> pipeline_;
  NativeMode native_ = NativeMode::kOff;
  const native::Builder* builder_ = nullptr;
  engine::TraceSink* trace_file_ = nullptr;
  std::optional<trace::HopTrace> hops_;
  Handlers handlers_;

  std::vector<std::unique_ptr<Worker>> workers_;
  InterfaceEvents interface_events_;
  std::int64_t links_seen_ns_ = 0;  // when look_at_links() last ran
  Health health_;
  TurnWatch turns_;          // of the first worker
  std::int64_t due_ns_ = 0;  // when the first worker wants its next turn
  std::mutex engine_;        // with several workers: guards pipeline_, due_ns_ and the lateness
                             // histogram

  std::mutex mutex_;  // guards jobs_, and writes to running_
  std::vector<Job*> jobs_;
  std::atomic<bool> running_ = false;
  std::optional<native::BackgroundBuild> build_;  // of the program's native code
};

}  // namespace tiercast::vswitch
