#include "dataplane/switch/program.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <linux/capability.h>
#include <malloc.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/privileges.h"
#include "base/sandbox.h"
#include "base/standard_output.h"
#include "base/text_file.h"
#include "dataplane/native/builder.h"
#include "dataplane/switch/data_plane.h"
#include "dataplane/switch/lab_service.h"
#include "dataplane/switch/options.h"
#include "dataplane/switch/p4runtime/service.h"
#include "dataplane/switch/p4runtime/translate/errors.h"
#include "dataplane/switch/port/interfaces.h"
#include "proto/control_server.h"

namespace tiercast::vswitch {
namespace {

constexpr int kUsage = 2;  // exit status for a wrong argument

p4::config::v1::P4Info read_p4info(const std::string& path) {
  const std::string text = read_text_file(path).text;
  p4::config::v1::P4Info info;
  const bool is_text = path.ends_with(".txt") || path.ends_with(".txtpb");
  if (is_text ? !google::protobuf::TextFormat::ParseFromString(text, &info)
              : !info.ParseFromString(text))
    throw OptionError(fmt::format("--p4info {}: not a P4Info in protobuf's {} format", path,
                                  is_text ? "text" : "binary"));
  return info;
}

void load_program(const Options& options, DataPlane& data_plane, P4RuntimeService& service) {
  if (options.json_path.empty()) return;
  const std::string json = read_text_file(options.json_path).text;
  if (options.p4info_path.empty()) {
    data_plane.set_program(engine::Program::load(json, options.json_path));
    return;
  }
  // Loaded here as well, because this error text names the file.
  engine::Program::load(json, options.json_path);
  p4::v1::ForwardingPipelineConfig config;
  *config.mutable_p4info() = read_p4info(options.p4info_path);
  config.set_p4_device_config(json);
  service.load(config);
}

// Lists the counts that are not 0: " (no route 3, expired 1)".
std::string listed(std::initializer_list<std::pair<std::string_view, std::uint64_t>> counts) {
  std::string text;
  for (const auto& [name, count] : counts)
    if (count != 0) text += fmt::format("{}{} {}", text.empty() ? " (" : ", ", name, count);
  return text.empty() ? text : text + ")";
}

std::string dropped_on_the_way_in(const accounts::IngressCounts& in) {
  return listed({{"invalid", in.invalid},
                 {"expired", in.expired},
                 {"no group", in.no_group},
                 {"no route", in.no_route},
                 {"refused", in.refused},
                 {"policed", in.policed}});
}

// What the port had to send, and what became of it.
std::string sent(const PortReport& port) {
  const accounts::Counts& counts = port.accounts.total;
  if (!port.accounts.by_program)
    return fmt::format("tx {}, dropped by the queue {}, by the program {}, by RED on arrival {}",
                       port.stats.tx_packets, port.stats.dropped_packets,
                       port.stats.egress_dropped_packets, port.stats.early_dropped_packets);
  const std::string wire = listed({{"on a link that was down", counts.down_drops},
                                   {"lost on the wire", counts.link_losses},
                                   {"duplicated", counts.duplicated}});
  return fmt::format(
      "entered {}, left {}, marked {}, dropped by the queue {}, by {} {}, pruned {}, "
      "waiting {}{}",
      counts.entered, counts.left, counts.marked, counts.queue_drops,
      port.policy.empty() ? "no policy" : port.policy, counts.policy_drops, counts.pruned,
      counts.waiting, wire);
}

void log_totals(std::uint64_t device_id, DataPlane& data_plane) {
  for (const PortReport& port : data_plane.report())
    spdlog::info("device {} port {} ({}): rx {} packets{}; {}; kernel drops {}, send errors {}",
                 device_id, port.number, port.interface, port.stats.rx_packets,
                 dropped_on_the_way_in(port.accounts.ingress), sent(port), port.kernel_drops,
                 port.send_errors);
  if (const Health health = data_plane.take_health(); health.packet_ins_dropped != 0)
    spdlog::warn(
        "{} of {} packets for the controller dropped: it was not connected, or did not read",
        health.packet_ins_dropped, health.packet_ins);
  if (const std::uint64_t digests = data_plane.totals().dropped_digests; digests != 0)
    spdlog::warn("{} digests dropped: they came faster than a controller read them", digests);
}

void set_up_log(const Options& options) {
  auto logger = spdlog::stderr_logger_mt(options.name);
  logger->set_pattern("%H:%M:%S.%e %n %l: %v");
  logger->set_level(spdlog::level::from_str(options.log_level));
  spdlog::set_default_logger(logger);
}

// One switch of the process: its ports, program, thread and address.
class LogicalSwitch {
 public:
  // Opens its ports. `builder` compiles its programs if there is one, and must outlive the object.
  LogicalSwitch(const Options& options, const Linked* linked, const native::Builder* builder)
      : options_(options),
        data_plane_(options.ports, options.cpu_port, options.workers,
                    options.seed.value_or(options.device_id), options.depth_register, linked),
        p4runtime_(options.device_id, data_plane_),
        lab_(data_plane_) {
    data_plane_.limit_sleeps(options.max_sleeps);
    data_plane_.set_native(options.native, builder);
    if (!options.trace_path.empty()) {
      trace_.emplace(options.trace_path, options.trace_one_in, options.trace_filter);
      data_plane_.set_trace(&*trace_);
    }
  }

  void load() { load_program(options_, data_plane_, p4runtime_); }
  void start() { data_plane_.start(); }

  // To be called once all switches have started: a call waits for the thread of linked switches.
  void serve() {
    if (!options_.grpc_address.empty())
      server_.emplace("--grpc", options_.grpc_address, options_.access,
                      std::vector<grpc::Service*>{&p4runtime_, &lab_});
    spdlog::info("device {}: {} ports, {}{}", options_.device_id, options_.ports.size(),
                 options_.json_path.empty() ? "no program yet" : "program " + options_.json_path,
                 server_ ? ", listening at " + options_.grpc_address : "");
  }

  void end_service() { server_.reset(); }

  // Returns whether the trace, if there is one, is complete.
  bool stop() {
    data_plane_.stop();
    log_totals(options_.device_id, data_plane_);
    return !trace_ || trace_->finish();
  }

 private:
  const Options& options_;
  std::optional<TraceFile> trace_;
  DataPlane data_plane_;
  P4RuntimeService p4runtime_;
  LabService lab_;
  std::optional<control::ControlServer> server_;
};

// The switch that a port is linked to; empty: none.
std::string linked_to(const PortOption& port) {
  if (!port.interface.starts_with(kLinkPrefix)) return {};
  const std::string end = port.interface.substr(kLinkPrefix.size());
  return end.substr(0, end.rfind('.'));
}

// Switches between which frames can pass in memory share a loop. The others have none here.
std::map<std::string, std::shared_ptr<Loop>> shared_loops(const std::vector<Options>& all) {
  std::map<std::string, std::vector<std::string>> neighbours;
  for (const Options& options : all)
    for (const PortOption& port : options.ports)
      if (const std::string peer = linked_to(port); !peer.empty())
        neighbours[options.name].push_back(peer);
  std::map<std::string, std::shared_ptr<Loop>> loops;
  for (const auto& [name, peers] : neighbours) {
    if (loops.contains(name)) continue;
    const auto loop = std::make_shared<Loop>();
    for (std::vector<std::string> reached = {name}; !reached.empty();) {
      const std::string next = std::move(reached.back());
      reached.pop_back();
      if (!loops.emplace(next, loop).second) continue;
      reached.insert(reached.end(), neighbours[next].begin(), neighbours[next].end());
    }
  }
  return loops;
}

// Once the ports are open, packet sockets need no capability. DPDK's drivers set up their
// interfaces again when they end. Sockets and keys may be in other users' folders.
void give_up_capabilities(const std::vector<Options>& all) {
  std::vector<int> kept = {CAP_DAC_OVERRIDE};
  for (const Options& options : all)
    for (const PortOption& port : options.ports)
      if (port.interface.starts_with(kDevicePrefix)) kept.push_back(CAP_NET_ADMIN);
  drop_capabilities(kept);
}

int run(const std::vector<Options>& all, const sigset_t& ending) {
  const bool sandbox = all.front().sandbox;
  const bool compiles = std::any_of(all.begin(), all.end(), [](const Options& options) {
    return options.native != NativeMode::kOff;
  });
  // Before the sandbox, in which no compiler can be started; and first, since it ends last.
  std::optional<native::Builder> builder;
  if (sandbox && compiles) builder.emplace();
  std::vector<std::unique_ptr<LogicalSwitch>> switches;
  Links links;
  const auto loops = shared_loops(all);
  for (const Options& options : all) {
    const auto loop = loops.find(options.name);
    std::optional<Linked> linked;
    if (loop != loops.end()) linked.emplace(Linked{options.name, links, loop->second});
    switches.push_back(std::make_unique<LogicalSwitch>(options, linked ? &*linked : nullptr,
                                                       builder ? &*builder : nullptr));
  }
  // Before there are other threads, which would keep their own capabilities.
  if (sandbox) give_up_capabilities(all);
  for (const auto& one : switches) one->load();
  for (const auto& one : switches) one->start();
  for (const auto& one : switches) one->serve();
  if (sandbox) confine();
  int signal = 0;
  sigwait(&ending, &signal);
  spdlog::info("ended by {}", signal == SIGINT ? "SIGINT" : "SIGTERM");
  for (const auto& one : switches) one->end_service();
  bool traced = true;
  for (const auto& one : switches) traced &= one->stop();
  return traced ? 0 : 1;
}

}  // namespace

int switch_main(int argc, const char* const* argv) {
  if (argc == 2 && std::string_view(argv[1]) == native::kBuilderOption)
    return native::builder_main();
  // With an arena for each of gRPC's threads, what one of them frees is not used again by others.
  ::mallopt(M_ARENA_MAX, 1);
  std::vector<Options> switches;
  switch (parse_switches(argc, argv, switches)) {
    case ParseOutcome::kExitOk: return end_output("tiercast-switch", 0);
    case ParseOutcome::kExitUsage: return kUsage;
    case ParseOutcome::kRun: break;
  }
  // Before any thread starts, because all threads inherit the mask. sigwait() in the main thread
  // then gets these signals.
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  signal(SIGPIPE, SIG_IGN);
  set_up_log(switches.front());
  try {
    return run(switches, ending);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tiercast-switch: {}\n", error.what());
    return kUsage;
  }
}

}  // namespace tiercast::vswitch
