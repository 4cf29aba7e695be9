#include "dataplane/switch/program.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <fstream>
#include <iterator>
#include <optional>

#include "dataplane/switch/control_server.h"
#include "dataplane/switch/data_plane.h"
#include "dataplane/switch/lab_service.h"
#include "dataplane/switch/options.h"
#include "dataplane/switch/p4runtime/errors.h"
#include "dataplane/switch/p4runtime/service.h"
#include "dataplane/switch/port/interfaces.h"

namespace tiercast::vswitch {
namespace {

constexpr int kUsage = 2;  // exit status of a wrong argument

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw OptionError(fmt::format("{}: cannot be read", path));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

p4::config::v1::P4Info read_p4info(const std::string& path) {
  const std::string text = read_file(path);
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
  const std::string json = read_file(options.json_path);
  if (options.p4info_path.empty()) {
    data_plane.set_program(engine::Program::load(json, options.json_path));
    return;
  }
  // For the error's text: it names the file.
  engine::Program::load(json, options.json_path);
  p4::v1::ForwardingPipelineConfig config;
  *config.mutable_p4info() = read_p4info(options.p4info_path);
  config.set_p4_device_config(json);
  service.load(config);
}

void log_totals(DataPlane& data_plane) {
  for (const PortReport& port : data_plane.report())
    spdlog::info(
        "port {} ({}): rx {} packets, tx {}, queue drops {}, kernel drops {}, send errors "
        "{}",
        port.number, port.interface, port.stats.rx_packets, port.stats.tx_packets,
        port.stats.dropped_packets, port.kernel_drops, port.send_errors);
  if (const std::uint64_t digests = data_plane.totals().dropped_digests; digests != 0)
    spdlog::warn("{} digests dropped: they came faster than a controller read them", digests);
}

void set_up_log(const Options& options) {
  auto logger = spdlog::stderr_logger_mt(options.name);
  logger->set_pattern("%H:%M:%S.%e %n %l: %v");
  logger->set_level(spdlog::level::from_str(options.log_level));
  spdlog::set_default_logger(logger);
}

int run(const Options& options, const sigset_t& ending) {
  std::optional<TraceFile> trace;
  DataPlane data_plane(options.ports, options.cpu_port);
  if (!options.trace_path.empty()) {
    trace.emplace(options.trace_path, options.trace_one_in, options.trace_filter);
    data_plane.set_trace(&*trace);
  }
  P4RuntimeService p4runtime(options.device_id, data_plane);
  LabService lab(data_plane);
  load_program(options, data_plane, p4runtime);

  data_plane.start();
  {
    std::optional<ControlServer> server;
    if (!options.grpc_address.empty())
      server.emplace(options.grpc_address, std::vector<grpc::Service*>{&p4runtime, &lab});
    spdlog::info("device {}: {} ports, {}{}", options.device_id, options.ports.size(),
                 options.json_path.empty() ? "no program yet" : "program " + options.json_path,
                 server ? ", listening at " + options.grpc_address : "");
    int signal = 0;
    sigwait(&ending, &signal);
    spdlog::info("ended by {}", signal == SIGINT ? "SIGINT" : "SIGTERM");
  }
  data_plane.stop();
  log_totals(data_plane);
  return 0;
}

}  // namespace

int switch_main(int argc, const char* const* argv) {
  Options options;
  switch (parse_command_line(argc, argv, options)) {
    case ParseOutcome::kExitOk: return 0;
    case ParseOutcome::kExitUsage: return kUsage;
    case ParseOutcome::kRun: break;
  }
  // Before any thread starts: all inherit the mask, and sigwait() in the main thread gets them.
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  signal(SIGPIPE, SIG_IGN);
  set_up_log(options);
  try {
    return run(options, ending);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tiercast-switch: {}\n", error.what());
    return kUsage;
  }
}

}  // namespace tiercast::vswitch
