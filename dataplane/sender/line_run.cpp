#include "dataplane/sender/line_run.h"

#include <fmt/format.h>
#include <rte_lcore.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/clock.h"
#include "agent/event_loop.h"
#include "agent/interface.h"
#include "agent/telemetry.h"
#include "dataplane/sender/line_sender.h"
#include "dataplane/sender/link_watch.h"
#include "dataplane/sender/live_view.h"
#include "dataplane/sender/metrics.h"
#include "dataplane/sender/schedule.h"
#include "dataplane/sender/session_service.h"
#include "dataplane/sender/worker.h"
#include "proto/control_server.h"
#include "protocols/wire/udp_frame.h"

namespace tiercast::sender {
namespace {

constexpr Duration kTendInterval = Duration::milliseconds(50);
constexpr Duration kReportInterval = Duration::milliseconds(1000);
constexpr int kGiveWay = 10;  // steps of niceness

double us(Duration duration) { return static_cast<double>(duration.ns()) / 1000; }
double real(std::uint64_t count) { return static_cast<double>(count); }

// Of the file, or the one session of the other options.
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
  for (const std::string& assignment : options.agent.assignments) {
    const std::size_t equals = assignment.find('=');
    (*spec.mutable_parameters())[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  return list;
}

std::vector<SessionRequest> requests_of(const v1::SessionList& list) {
  std::vector<SessionRequest> requests;
  for (const v1::SessionSpec& spec : list.sessions()) {
    auto some = sender::requests_of(spec);
    std::move(some.begin(), some.end(), std::back_inserter(requests));
  }
  return requests;
}

SenderAddresses addresses_of(const SenderOptions& options, const agent::MacAddress& device) {
  SenderAddresses addresses;
  addresses.own = {options.mac.value_or(device), options.address};
  addresses.gateway = options.gateway_mac;
  addresses.gateway_ip = options.gateway;
  addresses.vlan = options.vlan;
  return addresses;
}

// The EAL pins this thread to its first core. It, and the threads that it starts (gRPC, HTTP), may
// take milliseconds at a time: of `cpus` they get those on which no worker is, if there are any.
void leave_workers_cpus(const cpu_set_t& cpus) {
  cpu_set_t others = cpus;
  for (const unsigned lcore : Port::worker_lcores()) {
    const rte_cpuset_t worker = rte_lcore_cpuset(lcore);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &worker)) CPU_CLR(cpu, &others);
    }
  }
  sched_setaffinity(0, sizeof cpus, CPU_COUNT(&others) > 0 ? &others : &cpus);
}

// And where there is none, to the thread that receives.
void give_way() {
  errno = 0;
  const int niceness = getpriority(PRIO_PROCESS, 0);  // Linux: of this thread
  if (errno == 0) setpriority(PRIO_PROCESS, 0, niceness + kGiveWay);
}

// The records of a second, and what has to be said about it.
class Report {
 public:
  Report(const std::string& name, agent::Telemetry& telemetry)
      : name_(name), telemetry_(telemetry) {}

  void write(const Statistics& statistics, const char* pacer_kind) {
    const Time now = statistics.taken;
    for (const WorkerStatistics& worker : statistics.workers) {
      const double lcore = worker.lcore;
      telemetry_.record(now, "worker",
                        {{"lcore", lcore},
                         {"sessions", real(worker.sessions)},
                         {"layers", real(worker.layers)},
                         {"generated_packets", real(worker.generated)},
                         {"sent_packets", real(worker.sent)},
                         {"sent_bytes", real(worker.sent_bytes)},
                         {"dropped_packets", real(worker.dropped)},
                         {"given_up_packets", real(worker.given_up)},
                         {"behind", real(worker.behind)},
                         {"control_sent", real(worker.control_sent)},
                         {"control_dropped", real(worker.control_dropped)},
                         {"payload_underruns", real(worker.payload_underruns)},
                         {"trace_lost", real(worker.trace_lost)}});
      telemetry_.record(now, pacer_kind,
                        {{"lcore", lcore},
                         {"late_p50_us", us(worker.late.quantile(0.5))},
                         {"late_p99_us", us(worker.late.quantile(0.99))},
                         {"late_p999_us", us(worker.late.quantile(0.999))},
                         {"late_max_us", us(worker.late.max())},
                         {"gap_error_p50_us", us(worker.gap_error.quantile(0.5))},
                         {"gap_error_p99_us", us(worker.gap_error.quantile(0.99))},
                         {"gap_error_p999_us", us(worker.gap_error.quantile(0.999))},
                         {"gap_error_max_us", us(worker.gap_error.max())},
                         {"count", real(worker.late.count())},
                         {"dropped", real(worker.dropped)}});
    }
    std::uint64_t delivered = 0;
    std::uint64_t refused = 0;
    std::uint64_t late = 0;
    for (const WorkerStatistics& worker : statistics.workers) {
      delivered += worker.feedback_delivered;
      refused += worker.feedback_refused;
      late += worker.feedback_late;
    }
    const FeedbackStatistics& feedback = statistics.feedback;
    telemetry_.record(now, "feedback",
                      {{"accepted", real(delivered - refused)},
                       {"refused", real(refused)},
                       {"malformed", real(feedback.malformed)},
                       {"foreign", real(feedback.foreign)},
                       {"late", real(late)},
                       {"received", real(feedback.received)},
                       {"answered", real(feedback.answered)},
                       {"learned", real(feedback.learned)},
                       {"igmp_query", real(feedback.queries)},
                       {"ring_full", real(feedback.ring_full)},
                       {"missed", real(feedback.missed)}});
    warn(statistics);
  }

  void write_layers(Time now, const std::vector<LayerStatistics>& layers) {
    for (const LayerStatistics& layer : layers) {
      telemetry_.record(now, "layer",
                        {{"session", real(layer.session)},
                         {"rank", real(layer.rank)},
                         {"rate_Bps", layer.rate.bytes_per_second()},
                         {"sent_packets", real(layer.sent)},
                         {"sent_bytes", real(layer.sent) * layer.packet_size},
                         {"generated_packets", real(layer.generated)},
                         {"dropped_packets", real(layer.dropped)}});
    }
  }

 private:
  // A core that falls behind says so, once a second.
  void warn(const Statistics& statistics) {
    given_up_.resize(statistics.workers.size(), 0);
    for (std::size_t i = 0; i < statistics.workers.size(); ++i) {
      const WorkerStatistics& worker = statistics.workers[i];
      if (worker.given_up > given_up_[i]) {
        fmt::print(stderr, "{}: core {} is behind: it left out {} packets in this second\n", name_,
                   worker.lcore, worker.given_up - given_up_[i]);
      }
      given_up_[i] = worker.given_up;
    }
    if (statistics.link_up != link_up_) {
      fmt::print(stderr, "{}: the link is {}\n", name_,
                 statistics.link_up ? "up" : "down: packets are dropped");
    }
    link_up_ = statistics.link_up;
  }

  const std::string name_;
  agent::Telemetry& telemetry_;
  std::vector<std::uint64_t> given_up_;
  bool link_up_ = true;
};

}  // namespace

int run_dry(const SenderOptions& options) {
  const std::vector<SessionRequest> requests = requests_of(sessions_of(options));
  SessionTable::Settings settings;
  settings.addresses = addresses_of(options, options.mac.value_or(agent::MacAddress{}));
  std::unique_ptr<PayloadSource> payload;
  if (!options.payload.empty()) payload = open_payload(options.payload);
  settings.payload = payload.get();
  const ScheduleSummary summary =
      write_schedule(requests, settings, options.ramp, options.agent.duration, options.dry_run);
  fmt::print("{} packets, {} bytes in {}; a layer's gaps: p50 {}, p99 {}, longest {}\n",
             summary.packets, summary.bytes, format_duration(options.agent.duration),
             format_duration(summary.gaps.quantile(0.5)),
             format_duration(summary.gaps.quantile(0.99)), format_duration(summary.gaps.max()));
  return 0;
}

int run_line(const SenderOptions& options) {
  const v1::SessionList sessions = sessions_of(options);
  const std::vector<SessionRequest> requests = requests_of(sessions);
  PortNeeds needs{.ip_bytes = options.agent.session.packet_size,
                  .workers = true,
                  .private_bytes = kFeedbackNoteBytes};
  for (const SessionRequest& request : requests) {
    needs.ip_bytes = std::max(needs.ip_bytes, request.config.packet_size);
  }

  agent::EventLoop loop;  // first: it blocks the signals before the EAL starts threads
  agent::Telemetry telemetry(options.agent.trace, false);
  cpu_set_t cpus;
  sched_getaffinity(0, sizeof cpus, &cpus);
  Port port("tiercast-send", options.eal_arguments, needs);
  leave_workers_cpus(cpus);
  LineOptions line;
  line.addresses = addresses_of(options, port.mac());
  line.payload = options.payload;
  line.poll = options.poll;
  line.trace = !options.agent.trace.empty();
  line.session_capacity =
      std::max(options.max_sessions, static_cast<std::uint32_t>(requests.size()));
  line.largest_frame = static_cast<std::uint32_t>(needs.ip_bytes + wire::kEthernetBytes + kVlanBytes);
  line.ramp = options.ramp;
  LineSender sender(line, port);
  Report report(options.agent.name, telemetry);
  bool ending = false;
  loop.watch_signals([&ending](int) { ending = true; });
  LinkWatch link(port, loop, [&](bool up) {
    sender.set_link(up);
    telemetry.record(agent::monotonic_now(), "link", {{"up", up ? 1.0 : 0.0}});
  });
  sender.start_sessions(requests);
  const Time start = agent::monotonic_now();
  const Time end =
      options.agent.duration == Duration::infinite() ? Time::never() : start + options.agent.duration;
  sender.run();
  give_way();
  std::optional<MetricsServer> metrics;
  if (!options.metrics.empty()) {
    metrics.emplace(options.metrics, [&sender] { return sender.statistics(false); });
  }
  SessionService service(sender, sessions, needs.ip_bytes);
  std::optional<control::ControlServer> control_server;
  if (!options.control.empty()) {
    try {
      control_server.emplace("--control", options.control, std::vector<grpc::Service*>{&service});
    } catch (const control::ListenError& error) {
      throw ConfigError(error.what());
    }
  }
  std::optional<LiveView> view;
  if (isatty(STDOUT_FILENO) == 1 && options.agent.trace != "-") view.emplace(port.driver());
  Time next = start + kTendInterval;
  Time next_report = start + kReportInterval;
  while (!ending) {
    loop.wait(std::min(next, end));
    const Time now = agent::monotonic_now();
    ending |= now >= end;
    if (now < next) continue;
    sender.tend(&telemetry);
    link.look();
    if (now >= next_report) {
      const Statistics statistics = sender.statistics(view.has_value());
      report.write(statistics, "pacer");
      if (view) view->show(statistics, stdout);
      while (next_report <= now) next_report = next_report + kReportInterval;
    }
    telemetry.flush();
    ending |= sender.finished();
    while (next <= now) next = next + kTendInterval;
  }
  control_server.reset();
  sender.stop();
  sender.tend(&telemetry);
  const Statistics last = sender.statistics(false);
  report.write(last, "pacer.final");
  report.write_layers(last.taken, sender.take_ended_layers());
  telemetry.flush();
  return 0;
}

}  // namespace tiercast::sender
