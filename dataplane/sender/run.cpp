#include "dataplane/sender/run.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <prometheus/metric_family.h>
#include <rte_lcore.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/clock.h"
#include "agent/digest.h"
#include "agent/event_loop.h"
#include "agent/interface.h"
#include "agent/members.h"
#include "agent/run.h"
#include "agent/telemetry.h"
#include "base/privileges.h"
#include "base/sandbox.h"
#include "dataplane/dpdk/eal.h"
#include "dataplane/dpdk/metrics_server.h"
#include "dataplane/sender/metrics/live_view.h"
#include "dataplane/sender/metrics/prometheus.h"
#include "dataplane/sender/metrics/records.h"
#include "dataplane/sender/metrics/summary.h"
#include "dataplane/sender/port/kernel_port.h"
#include "dataplane/sender/port/link_watch.h"
#include "dataplane/sender/sender.h"
#include "dataplane/sender/session_service.h"
#include "dataplane/sender/sessions/schedule.h"
#include "dataplane/sender/sessions/session_list.h"
#include "dataplane/sender/worker/worker.h"
#include "proto/control_server.h"
#include "protocols/wire/udp_frame.h"
#include "protocols/wire/wire.h"

namespace tiercast::sender {
namespace {

constexpr Duration kTendInterval = Duration::milliseconds(50);
constexpr int kGiveWay = 10;  // steps of niceness

// The sessions of the file, or the one session of the other options.
v1::SessionList sessions_of(const SenderOptions& options) {
  if (!options.sessions.empty()) return read_sessions(options.sessions);
  v1::SessionList list;
  v1::SessionSpec& spec = *list.add_sessions();
  const SessionConfig& config = options.agent.session;
  spec.set_session(config.session);
  spec.set_scheme(std::string(options.scheme->name));
  spec.set_layers(config.layers);
  spec.set_packet_size(config.packet_size);
  spec.set_id(config.self_id);
  spec.set_seed(config.seed);
  spec.set_input(options.input);
  if (options.agent.keys) *spec.mutable_keys() = *options.agent.keys;
  for (const v1::Member& member : options.members) *spec.add_members() = member;
  for (const std::string& assignment : options.agent.assignments) {
    const std::size_t equals = assignment.find('=');
    (*spec.mutable_parameters())[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  return list;
}

std::vector<SessionRequest> requests_of(v1::SessionList& list) {
  std::vector<SessionRequest> requests;
  for (v1::SessionSpec& spec : *list.mutable_sessions()) {
    auto some = sender::requests_of(spec);
    std::move(some.begin(), some.end(), std::back_inserter(requests));
  }
  return requests;
}

// If no CPU is without a worker, this thread gives way to the one that receives.
void give_way() {
  errno = 0;
  const int niceness = getpriority(PRIO_PROCESS, 0);  // on Linux: that of this thread
  if (errno == 0) setpriority(PRIO_PROCESS, 0, niceness + kGiveWay);
}

InputFiles files_of(const SenderOptions& options) {
  const bool is_tcp = !options.control.starts_with("unix:");
  return {options.input_root.empty() && is_tcp, options.input_root};
}

// The sessions from start to end, and the interfaces through which they are watched and controlled.
class Sending final : public agent::Activity {
 public:
  // All references must outlive the object.
  Sending(const SenderOptions& options, const v1::SessionList& sessions,
          std::vector<SessionRequest> requests, std::uint32_t largest_packet,
          const std::vector<std::unique_ptr<Port>>& ports, agent::EventLoop& loop,
          agent::Telemetry& telemetry, Sender& sender)
      : options_(options),
        requests_(std::move(requests)),
        telemetry_(telemetry),
        sender_(sender),
        session_records_(telemetry),
        worker_records_(options.agent.name, telemetry),
        service_(sender, sessions, largest_packet, files_of(options)) {
    for (std::size_t i = 0; i < ports.size(); ++i) {
      links_.push_back(std::make_unique<LinkWatch>(*ports[i], loop, [this, i](bool up) {
        sender_.set_link(i, up);
        if (!options_.many()) return;
        telemetry_.record(agent::monotonic_now(), "link",
                          {{"port", static_cast<double>(i)}, {"up", up ? 1.0 : 0.0}});
      }));
    }
    if (options.agent.lab.empty()) return;
    // Nobody subscribes until the lab says so. ARP is answered even before Start.
    requests_.front().top_rank = top_rank_ = -1;
    run_threads();
  }

  void welcome(const v1::Welcome& welcome) override {
    requests_.front().config.members = agent::members_of(welcome.members());
    requests_.front().keys = agent::keys_of(welcome.keys());
  }

  void start(Time now) override {
    sender_.start_sessions(requests_);
    run_threads();
    if (!options_.metrics.empty()) {
      metrics_.emplace(options_.metrics, options_.agent.access.insecure,
                       [this] { return metric_families(sender_.statistics(false)); });
    }
    if (!options_.control.empty()) {
      try {
        control_server_.emplace("--control", options_.control, options_.agent.access,
                                std::vector<grpc::Service*>{&service_});
      } catch (const control::AddressError& error) {
        throw ConfigError(error.what());
      }
    }
    if (options_.many() && isatty(STDOUT_FILENO) == 1 && options_.agent.trace != "-") {
      view_.emplace();
    }
    next_tend_ = now + kTendInterval;
    began_ = now;
  }

  // With many sessions, each states its own subscription.
  void membership(Time, int top_rank) override {
    if (options_.many() || top_rank == std::exchange(top_rank_, top_rank)) return;
    sender_.set_membership(requests_.front().config.session, top_rank);
  }

  void run(Time now) override {
    if (now < next_tend_) return;
    sender_.tend(&telemetry_);
    for (const auto& link : links_) link->poll();
    while (next_tend_ <= now) next_tend_ = next_tend_ + kTendInterval;
  }

  Time next_deadline() const override { return next_tend_; }

  void report(Time, bool second, bool last) override {
    if (last) {
      report_totals();
    } else if (!options_.many()) {
      session_records_.write(sender_.statistics(true), second);
    } else if (second) {
      const Statistics statistics = sender_.statistics(view_.has_value());
      worker_records_.write(statistics);
      worker_records_.write_ended(statistics.taken, sender_.take_ended_layers());
      if (view_) view_->show(statistics, stdout);
    }
  }

  bool finished() const override { return sender_.finished(); }

  void stop(Time) override {}  // the last report has stopped it, and its counts are final

 private:
  void run_threads() {
    if (std::exchange(threads_run_, true)) return;
    sender_.run();
    if (options_.poll || options_.many()) give_way();
  }

  void report_totals() {
    control_server_.reset();
    sender_.stop();
    sender_.tend(&telemetry_);
    Statistics last = sender_.statistics(false);
    last.layers = sender_.take_ended_layers();
    if (options_.agent.lab.empty() && options_.agent.trace != "-") {
      fmt::print("{}", summary(last, agent::monotonic_now() - began_));
    }
    if (options_.many()) {
      worker_records_.write_totals(last);
      worker_records_.write_ended(last.taken, last.layers);
      return;
    }
    session_records_.write(last, true);
    session_records_.write_totals(last);
  }

  const SenderOptions& options_;
  std::vector<SessionRequest> requests_;
  int top_rank_ = kMaxLayers;  // as last told; for a single session
  agent::Telemetry& telemetry_;
  Sender& sender_;
  SessionRecords session_records_;
  WorkerRecords worker_records_;
  std::vector<std::unique_ptr<LinkWatch>> links_;  // by port
  SessionService service_;
  std::optional<dpdk::MetricsServer> metrics_;
  std::optional<control::ControlServer> control_server_;
  std::optional<LiveView> view_;
  bool threads_run_ = false;
  Time next_tend_ = Time::never();
  Time began_;
};

}  // namespace

int run_dry(const SenderOptions& options) {
  v1::SessionList sessions = sessions_of(options);
  const std::vector<SessionRequest> requests = requests_of(sessions);
  SessionTable::Settings settings;
  settings.addresses = options.addresses_of(0, {});
  const auto payload = open_payload(options.payload, 1);
  settings.payload = payload.front().get();
  const ScheduleSummary summary =
      write_schedule(requests, settings, options.ramp, options.agent.duration, options.dry_run);
  const auto gap = [](std::int64_t ns) { return format_duration(Duration::nanoseconds(ns)); };
  fmt::print("{} packets, {} bytes in {}; a layer's gaps: p50 {}, p99 {}, longest {}\n",
             summary.packets, summary.bytes, format_duration(options.agent.duration),
             gap(summary.gaps.quantile(0.5)), gap(summary.gaps.quantile(0.99)),
             gap(summary.gaps.max()));
  return 0;
}

int run_sender(const SenderOptions& options) {
  v1::SessionList sessions = sessions_of(options);
  std::vector<SessionRequest> requests = requests_of(sessions);
  dpdk::PortNeeds needs;
  needs.name = "tiercast-send";
  needs.ip_bytes = options.agent.session.packet_size;
  needs.private_bytes = kFeedbackNoteBytes;
  for (const SessionRequest& request : requests) {
    needs.ip_bytes = std::max(needs.ip_bytes, request.config.packet_size);
  }

  agent::EventLoop loop;  // first, because it blocks the signals before the EAL starts threads
  agent::Telemetry telemetry(options.agent.trace, !options.agent.lab.empty());
  cpu_set_t cpus;
  sched_getaffinity(0, sizeof cpus, &cpus);
  const dpdk::Eal eal("tiercast-send", options.eal_arguments);
  const std::vector<std::uint16_t> devices = eal.devices();
  options.check_ports(devices.size());
  const std::vector<unsigned> lcores = dpdk::Eal::worker_lcores();
  // If a thread receives beside the workers, frames wait in rings between them.
  const bool own_receiver = lcores.front() != rte_get_main_lcore();
  needs.many_frames = options.poll || own_receiver;
  if (own_receiver) needs.held_frames = kFeedbackWaiting;
  std::vector<std::unique_ptr<Port>> ports;
  std::vector<SenderPort> sender_ports;
  std::vector<UniqueFd> held;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    // With fewer workers than ports, Sender says what is missing.
    needs.queues = std::max<std::uint16_t>(Sender::queues(lcores.size(), devices.size(), i), 1);
    Port& port = *ports.emplace_back(std::make_unique<Port>(devices[i], needs));
    sender_ports.push_back({&port, options.addresses_of(i, port.mac())});
    port.receive_for(sender_ports.back().addresses.own.mac);
    held.push_back(hold_kernel_port(sender_ports.back().addresses.own.ip, wire::kFeedbackPort));
    if (!port.interface().empty()) {
      if (const std::string problem = agent::disable_veth_offloads(port.interface());
          !problem.empty()) {
        fmt::print(stderr, "{}: {}; checksums of what it receives may look wrong\n",
                   options.agent.name, problem);
      }
    }
  }
  dpdk::leave_workers_cpus(cpus);
  agent::AgentOptions life = options.agent;
  if (!options.input.empty() && !life.lab.empty()) {
    life.object = agent::sha256(requests.front().input->bytes());
  }
  if (options.poll || options.many())
    life.realtime = 0;  // it would take the CPU from all other
                        // processes
  SenderSettings settings;
  settings.payload = options.payload;
  settings.poll = options.poll;
  settings.quantum = options.quantum;
  settings.realtime = life.realtime;
  settings.trace = !options.agent.trace.empty() || !options.agent.lab.empty();
  settings.name_sessions = options.many();
  settings.session_capacity =
      std::max(options.max_sessions, static_cast<std::uint32_t>(requests.size()));
  settings.largest_frame =
      static_cast<std::uint32_t>(needs.ip_bytes + wire::kEthernetBytes + dpdk::kVlanBytes);
  settings.ramp = options.ramp;
  Sender sender(settings, sender_ports);
  if (options.sandbox) {
    // Threads become real-time ones when they start, pages are locked for devices, and drivers set
    // up their interfaces again when they end. Files and sockets may be in other users' folders.
    drop_capabilities(std::array{CAP_DAC_OVERRIDE, CAP_NET_ADMIN, CAP_IPC_LOCK, CAP_SYS_NICE});
    confine();
  }
  Sending sending(options, sessions, std::move(requests), needs.ip_bytes, ports, loop, telemetry,
                  sender);
  return agent::run_agent(life, v1::ROLE_SENDER, loop, telemetry, sending);
}

}  // namespace tiercast::sender
