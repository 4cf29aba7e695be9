// The data plane: one thread that alone touches the engine and the ports. It sleeps until
// a frame arrives, an event of the engine is due, or another thread hands it work through call().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dataplane/engine/switch.h"
#include "dataplane/switch/lateness.h"
#include "dataplane/switch/options.h"
#include "dataplane/switch/port/frame_port.h"

namespace tiercast::vswitch {

// What to change of a port's link; absent: as it is. Units of engine::PortConfig.
struct LinkChange {
  std::optional<double> rate_bps;
  std::optional<std::uint32_t> queue_packets;
  std::optional<std::uint64_t> queue_bytes;
  std::optional<std::int64_t> delay_ns;
  std::optional<std::int64_t> rx_delay_ns;
};

struct PortReport {
  std::uint32_t number = 0;
  std::string interface;
  std::int32_t overhead_bytes = 0;
  engine::PortStats stats;  // maxima since the previous report
  std::uint64_t kernel_drops = 0;
  std::uint64_t send_errors = 0;
  std::int64_t late_p50_ns = 0;  // of departures since the previous report
  std::int64_t late_p99_ns = 0;
  std::int64_t late_max_ns = 0;
};

class DataPlane : private engine::Output {
 public:
  // Opens a socket per port; throws InterfaceError naming the port.
  DataPlane(const std::vector<PortOption>& ports, std::uint32_t cpu_port);
  ~DataPlane() override;

  // What the program has to say to the control plane; called on the data-plane thread, must not
  // block. As in engine::Output.
  struct Handlers {
    std::function<void(std::span<const std::byte>)> packet_in;
    std::function<bool(const engine::DigestList&)> digest;
    std::function<void(std::string_view, std::span<const engine::TableEntry>)> entries_expired;
  };
  // Before start().
  void set_handlers(Handlers handlers);

  // Set it before start() and the program; it must outlive this.
  void set_trace(engine::TraceSink* sink) { trace_ = sink; }

  void start();
  void stop();

  // Runs work on the data-plane thread, between packets, and waits for it; rethrows what it
  // throws. While the thread does not run, runs it at once. Not from the data-plane thread.
  void call(const std::function<void()>& work);

  // A switch like pipeline(), with the same ports, that carries no traffic of theirs.
  std::unique_ptr<engine::Switch> make_switch(std::shared_ptr<const engine::Program> program,
                                              engine::Output& output);

  // --- Only inside call(). ---

  // Null until the first set_program(). Its time is the present.
  engine::Switch* pipeline() { return pipeline_.get(); }
  void set_program(std::shared_ptr<const engine::Program> program);
  // A frame from the control plane, with the program's packet_out header in front.
  void packet_out(std::span<const std::byte> frame);
  // kNotFound, kInvalidArgument.
  engine::Status change_link(std::uint32_t port, const LinkChange& change);
  std::vector<PortReport> report();
  engine::SwitchStats totals() const;  // all 0 without a pipeline

 private:
  struct Port {
    std::uint32_t number;
    engine::PortConfig link;
    std::unique_ptr<FramePort> frames;
    LatenessHistogram lateness;
  };
  struct Arrival {
    std::uint32_t port;
    std::uint32_t order;  // as it was read
    ReceivedFrame frame;
  };
  struct Job {
    const std::function<void()>* work;
    std::promise<void> done;
  };

  void transmit(std::uint32_t port, std::span<const std::byte> frame, std::int64_t due_ns) override;
  void packet_in(std::span<const std::byte> frame) override;
  bool digest(const engine::DigestList& list) override;
  void entries_expired(std::string_view table,
                       std::span<const engine::TableEntry> entries) override;

  void watch(int fd, std::uint64_t key);
  void loop();
  void wait_and_read();
  void read(Port& port);
  void arm_timer(std::int64_t due_ns);
  void run_jobs();

  const std::uint32_t cpu_port_;
  std::vector<std::unique_ptr<Port>> ports_;  // in the order of the command line
  std::vector<Port*> by_number_;              // null where there is no port
  std::vector<Port*> polled_;                 // ports without a descriptor: the loop never sleeps
  unsigned rounds_ = 0;                       // of polling
  std::unique_ptr<engine::Switch> pipeline_;
  engine::TraceSink* trace_ = nullptr;
  Handlers handlers_;

  int epoll_ = -1;
  int timer_ = -1;
  int wakeup_ = -1;            // eventfd: jobs_ or stopping_ changed
  std::int64_t armed_ns_ = 0;  // what timer_ is set to
  std::vector<Arrival> arrivals_;
  bool woken_ = false;

  std::thread thread_;
  std::mutex mutex_;  // guards jobs_, running_ and stopping_
  std::vector<Job*> jobs_;
  bool running_ = false;
  bool stopping_ = false;
};

}  // namespace tiercast::vswitch
