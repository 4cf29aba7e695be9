#include "dataplane/receiver/run.h"

#include <fmt/format.h>
#include <poll.h>
#include <rte_lcore.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "agent/clock.h"
#include "agent/event_loop.h"
#include "agent/interface.h"
#include "dataplane/dpdk/eal.h"
#include "dataplane/dpdk/metrics_server.h"
#include "dataplane/dpdk/tsc_clock.h"
#include "dataplane/receiver/show/live_view.h"
#include "dataplane/receiver/show/prometheus.h"
#include "dataplane/receiver/show/report.h"

namespace tiercast::receiver {
namespace {

constexpr Duration kSecond = Duration::milliseconds(1000);
// A thread without a descriptor to wait on looks so often.
constexpr auto kNap = std::chrono::microseconds(100);
constexpr int kWaitMs = 10;
// Frames that are in the ring when the end comes still count.
constexpr unsigned kLastPolls = dpdk::Port::kLastPolls;

// Receives on some ports until `stop`; then leaves, and takes what has already arrived.
class Receiving {
 public:
  Receiving(std::vector<PortAnalyser*> ports, bool poll) : ports_(std::move(ports)), poll_(poll) {
    for (const PortAnalyser* const port : ports_) {
      const int descriptor = port->port().receive_descriptor();
      if (descriptor >= 0) descriptors_.push_back({descriptor, POLLIN, 0});
    }
  }

  // Counts down `unready` once all its ports receive.
  void run(const std::stop_token& stop, std::atomic<std::size_t>& unready) {
    dpdk::TscClock clock;
    for (PortAnalyser* const port : ports_) port->start(clock.now());
    unready.fetch_sub(1, std::memory_order_release);
    dpdk::SyncTurns sync(clock, poll_);
    while (!stop.stop_requested()) {
      if (take(clock) == 0 && !poll_) rest();
      if (sync.due(clock)) {
        clock.sync();
        for (PortAnalyser* const port : ports_) port->sync_clock(clock.now());
      }
    }
    for (PortAnalyser* const port : ports_) port->leave_all(clock.now());
    for (unsigned i = 0; i < kLastPolls && (take(clock) > 0 || i == 0); ++i) {
    }
  }

 private:
  unsigned take(const dpdk::TscClock& clock) {
    unsigned taken = 0;
    for (PortAnalyser* const port : ports_) taken += port->poll(clock);
    return taken;
  }

  void rest() {
    if (descriptors_.size() == ports_.size()) {
      ::poll(descriptors_.data(), descriptors_.size(), kWaitMs);
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }

  const std::vector<PortAnalyser*> ports_;
  const bool poll_;
  std::vector<pollfd> descriptors_;
};

}  // namespace

int run_receiver(const ReceiverOptions& options) {
  agent::EventLoop loop;  // first, because it blocks the signals before the EAL starts threads
  cpu_set_t cpus;
  sched_getaffinity(0, sizeof cpus, &cpus);
  std::optional<dpdk::OutputFile> json;  // opened before the run, so that its end cannot fail
  if (!options.json.empty()) json.emplace("--json", options.json);
  const dpdk::Eal eal("tiercast-recv", options.eal_arguments);
  dpdk::leave_workers_cpus(cpus);  // before the threads that write captures and serve figures
  std::vector<std::unique_ptr<dpdk::Port>> devices;
  std::unique_ptr<Capture> capture;
  Ports ports;
  dpdk::PortNeeds needs;
  needs.name = "tiercast-recv";
  needs.ip_bytes = options.packet_size;
  needs.many_frames = true;
  needs.all_groups = true;
  needs.receive_stamps = true;
  if (!options.pcap.empty()) {
    capture = std::make_unique<Capture>(options.pcap);
    needs.held_frames = Capture::kWaiting;
  }
  for (const std::uint16_t id : eal.devices()) {
    dpdk::Port& port = *devices.emplace_back(std::make_unique<dpdk::Port>(id, needs));
    if (!port.interface().empty()) {
      if (const std::string problem = agent::disable_veth_offloads(port.interface());
          !problem.empty()) {
        fmt::print(stderr, "tiercast-recv: {}; checksums of what it receives may look wrong\n",
                   problem);
      }
    }
    PortAnalyser::Settings settings;
    settings.own = {port.mac(), options.address};
    settings.igmp_version = options.igmp_version;
    settings.join = options.join;
    settings.any = options.any;
    settings.vlan = options.vlan;
    settings.streams = options.streams;
    settings.capture = capture.get();
    settings.captured = [&options](std::uint32_t group) {
      return options.pcap_groups.empty() ||
             std::binary_search(options.pcap_groups.begin(), options.pcap_groups.end(), group);
    };
    ports.push_back(std::make_unique<PortAnalyser>(std::move(settings), port));
  }
  std::optional<dpdk::MetricsServer> metrics;
  if (!options.metrics.empty()) {
    metrics.emplace(options.metrics, options.insecure, [&ports] { return metric_families(ports); });
  }

  std::vector<unsigned> lcores = dpdk::Eal::worker_lcores();
  lcores.resize(std::min(lcores.size(), ports.size()));
  std::atomic<std::size_t> unready{lcores.size()};
  std::vector<std::jthread> threads;  // an error elsewhere ends them, too, and leaves the groups
  for (std::size_t i = 0; i < lcores.size(); ++i) {
    std::vector<PortAnalyser*> own;
    for (std::size_t port = i; port < ports.size(); port += lcores.size()) {
      own.push_back(ports[port].get());
    }
    threads.emplace_back([&, lcore = lcores[i], own](const std::stop_token& stop) {
      dpdk::pin_to(lcore);
      rte_thread_register();  // gives the thread its own cache of buffers
      Receiving(own, options.poll).run(stop, unready);
      rte_thread_unregister();
    });
  }
  const Time begin = agent::monotonic_now();
  const Time end = begin + options.duration;
  bool ended = false;
  loop.watch_signals([&ended](int) { ended = true; });
  std::optional<LiveView> view;
  if (isatty(STDOUT_FILENO) == 1) view.emplace();
  bool told = options.ready.empty();
  Time next = begin;
  for (Time now = begin; !ended && now < end; now = agent::monotonic_now()) {
    if (!told && unready.load(std::memory_order_acquire) == 0) {
      dpdk::OutputFile("--ready", options.ready).close();
      told = true;
    }
    if (view && now >= next) {
      view->show(now, ports, stdout);
      next = now + kSecond;
    }
    const Time look = told ? (view ? next : end) : now + Duration::milliseconds(5);
    loop.wait(std::min(look, end));
  }
  for (std::jthread& thread : threads) thread.request_stop();  // all before one is waited for
  threads.clear();
  const double seconds = (agent::monotonic_now() - begin).seconds();
  metrics.reset();
  // Not by fmt::print, which throws where this cannot be written, before the report is.
  std::fputs(summary(ports, seconds).c_str(), stdout);
  bool captured = true;
  if (capture) {
    // Its thread still writes; all figures are final once it has ended.
    captured = capture->finish();
    fmt::print("{}: {} frames captured, {} left out\n", options.pcap, capture->written(),
               capture->left_out());
  }
  if (json) {
    write_json(ports, seconds, capture.get(), *json);
    json->close();
  }
  return captured ? 0 : 1;
}

}  // namespace tiercast::receiver
