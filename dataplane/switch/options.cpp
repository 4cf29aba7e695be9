#include "dataplane/switch/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include "base/quantity.h"
#include "base/sandbox.h"
#include "dataplane/engine/queues/priority_queues.h"
#include "dataplane/engine/queues/red.h"
#include "dataplane/switch/port/frame_port.h"
#include "dataplane/switch/port/link_port.h"

namespace tiercast::vswitch {
namespace {

constexpr std::uint32_t kMaxPort = 510;
constexpr double kMaxRate = 1e12;                   // bit/s
constexpr std::int64_t kMaxDelay = 60'000'000'000;  // ns
constexpr std::size_t kMaxInterfaceName = 15;       // IFNAMSIZ - 1
constexpr std::size_t kMaxSocketPath = 107;         // sockaddr_un
constexpr unsigned kLeastSleeps = 100;              // of --max-sleeps
constexpr unsigned kMostSleeps = 1'000'000;
constexpr const char* kPortForm =
    "NUMBER=INTERFACE|xdp:INTERFACE|link:SWITCH.PORT[,rate=6Mbit/s][,queue=50p|30000B|50p/"
    "30000B][,delay=5ms][,overhead=-14B]"
    "[,rx-delay=5ms][,scheduling=fifo|fair|layered|priority:0.1][,red=min_th:5/max_th:15/max_p:0.1/"
    "...]";

const char* const kExamples = R"(Examples:
  A switch of two ports, the second a 6 Mbit/s link of 5 ms with a queue of 50 packets, that
  counts IP bytes:
    tiercast-switch --device-id 1 --json tiercast.json --p4info tiercast.p4info.txtpb \
      --port 1=s1-eth1 --port 2=s1-eth2,rate=6Mbit/s,queue=50p,delay=5ms,overhead=-14B \
      --grpc unix:/run/s1.sock
  Ports on AF_XDP sockets, which take less time for a frame, at interfaces with one queue:
    tiercast-switch --device-id 1 --port 1=xdp:eth0 --port 2=xdp:eth1 --grpc unix:/run/s1.sock
  Without a program, which the controller then sends (SetForwardingPipelineConfig):
    tiercast-switch --device-id 1 --port 1=eth0 --port 2=eth1 --grpc 192.0.2.7:9559 \
      --tls /etc/tiercast/keys
  Two switches in one process, each in its own thread, that run the same program:
    tiercast-switch --json tiercast.json --p4info tiercast.p4info.txtpb \
      --switch --device-id 1 --port 1=s1-eth1 --port 2=s1-eth2 --grpc unix:/run/s1.sock \
      --switch --device-id 2 --port 1=s2-eth1 --port 2=s2-eth2 --grpc unix:/run/s2.sock
  The same with a link of 6 Mbit/s between them in memory, and one thread for both:
    tiercast-switch --json tiercast.json --p4info tiercast.p4info.txtpb \
      --switch --name s1 --device-id 1 --port 1=s1-eth1 --port 2=link:s2.1,rate=6Mbit/s \
      --switch --name s2 --device-id 2 --port 1=link:s1.2,rate=6Mbit/s --port 2=s2-eth2
  A program of one's own as fast as it gets from the first packet on; compiled objects are kept in
  $TIERCAST_CACHE, $XDG_CACHE_HOME/tiercast or ~/.cache/tiercast:
    tiercast-switch --native wait --device-id 1 --json router.json --p4info router.p4info.txtpb \
      --port 1=eth0 --port 2=eth1 --grpc unix:/run/router.sock

Exit status: 0 ended by SIGINT or SIGTERM, 2 a wrong argument.
)";

template <class T>
std::optional<T> parse_integer(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void parse_queue(std::string_view text, engine::PortConfig& link) {
  const auto bounds = read_queue(text);
  if (!bounds) {
    throw OptionError(
        fmt::format("'{}' is not a queue limit; valid: {}; 0 means no limit", text, kQueueForms));
  }
  link.queue_packets = bounds->packets.value_or(link.queue_packets);
  link.queue_bytes = bounds->bytes.value_or(link.queue_bytes);
}

std::int32_t parse_overhead(std::string_view text) {
  if (!text.empty() && text.back() == 'B') {
    const auto value = parse_integer<std::int32_t>(text.substr(0, text.size() - 1));
    if (value && *value >= -64 && *value <= 1000) return *value;
  }
  throw OptionError(
      fmt::format("'{}' is not an overhead; valid: bytes from -64B to 1000B, such as "
                  "-14B (count IP bytes)",
                  text));
}

// "min_th:5/max_th:15/ecn:1": what is not there has ns-2's value.
engine::RedConfig parse_red(std::string_view text) {
  engine::RedConfig red;
  const std::map<std::string_view, double*> numbers = {
      {"min_th", &red.min_th},
      {"max_th", &red.max_th},
      {"max_p", &red.max_p},
      {"weight", &red.weight},
      {"mean_packet_bytes", &red.mean_packet_bytes}};
  const std::map<std::string_view, bool*> switches = {{"gentle", &red.gentle},
                                                      {"wait", &red.wait},
                                                      {"ecn", &red.ecn},
                                                      {"mark_above_max", &red.mark_above_max}};
  std::set<std::string_view> seen;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const auto colon = std::min(part.find(':'), part.size());
    const std::string_view key = part.substr(0, colon);
    const std::string_view value = part.substr(std::min(colon + 1, part.size()));
    begin = end + 1;
    if (!seen.insert(key).second) throw OptionError(fmt::format("{}: given twice", key));
    if (const auto number = numbers.find(key); number != numbers.end()) {
      const auto [stop, error] =
          std::from_chars(value.data(), value.data() + value.size(), *number->second);
      if (error != std::errc() || stop != value.data() + value.size())
        throw OptionError(fmt::format("{}: '{}' is not a number", key, value));
    } else if (const auto flag = switches.find(key); flag != switches.end()) {
      if (value != "0" && value != "1")
        throw OptionError(fmt::format("{}: '{}'; valid: 0, 1", key, value));
      *flag->second = value == "1";
    } else {
      throw OptionError(fmt::format(
          "'{}' is no parameter of RED; valid: min_th:5, max_th:15, max_p:0.1, weight:0.002, "
          "mean_packet_bytes:500, gentle:0, wait:1, ecn:0, mark_above_max:0, joined by '/'",
          part));
    }
  }
  if (const std::string wrong = engine::Red::wrong(red); !wrong.empty()) throw OptionError(wrong);
  return red;
}

void parse_scheduling(std::string_view value, engine::PortConfig& link) {
  constexpr std::string_view kPriority = "priority";
  link.layered = value == "layered";
  link.fair_queueing = link.layered || value == "fair";
  link.priority.reset();
  if (value == "fifo" || link.fair_queueing) return;
  if (!value.starts_with(kPriority)) {
    throw OptionError(fmt::format(
        "'{}' is not a scheduling discipline; valid: fifo, fair, layered, priority, priority:SHARE",
        value));
  }
  link.priority.emplace();
  std::string_view share = value.substr(kPriority.size());
  if (share.empty()) return;
  const auto* const end = share.data() + share.size();
  const auto [stop, error] = std::from_chars(share.data() + 1, end, link.priority->low_share);
  if (share[0] != ':' || error != std::errc() || stop != end) {
    throw OptionError(fmt::format(
        "'{}' is no share; valid: priority:SHARE, 0 or more, below 1, such as priority:0.1",
        value));
  }
  const std::string wrong = engine::PriorityQueues::wrong(link.priority, false);
  if (!wrong.empty()) throw OptionError(wrong);
}

void parse_port_parameter(std::string_view key, std::string_view value, engine::PortConfig& link) {
  if (key == "rate") {
    link.rate_bps = parse_rate(value);
  } else if (key == "queue") {
    parse_queue(value, link);
  } else if (key == "delay") {
    link.delay_ns = parse_duration(value);
  } else if (key == "rx-delay") {
    link.rx_delay_ns = parse_duration(value);
  } else if (key == "overhead") {
    link.overhead_bytes = parse_overhead(value);
  } else if (key == "scheduling") {
    parse_scheduling(value, link);
  } else if (key == "red") {
    link.red = parse_red(value);
  } else {
    throw OptionError(
        "unknown parameter; valid: rate, queue, delay, overhead, rx-delay, scheduling, red");
  }
}

// Checks an address that P4Runtime and tiercast.v1 are to listen at: unix:/path or host:port.
void check_address(const std::string& address) {
  const auto wrong = [&](std::string_view why) {
    return OptionError(
        fmt::format("--grpc '{}': {}; valid: unix:/absolute/path or host:port", address, why));
  };
  if (address.starts_with("unix:")) {
    const std::string_view path = std::string_view(address).substr(5);
    if (!path.starts_with('/')) throw wrong("the path is not absolute");
    if (path.size() > kMaxSocketPath)
      throw wrong(
          fmt::format("the path has {} bytes, a socket's at most {}", path.size(), kMaxSocketPath));
    return;
  }
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) throw wrong("no host and port");
  const auto port = parse_integer<std::uint16_t>(std::string_view(address).substr(colon + 1));
  if (!port || *port == 0) throw wrong("the port is not a number from 1 to 65535");
}

// Checks that switches of one process share nothing that they cannot share.
void check_apart(const std::vector<Options>& switches) {
  std::map<std::string, std::size_t> users;
  for (std::size_t n = 0; n < switches.size(); ++n) {
    const auto use = [&](const std::string& what) {
      const auto [first, is_new] = users.emplace(what, n + 1);
      if (is_new) return;
      throw OptionError(fmt::format("switches {} and {} both have {}", first->second, n + 1, what));
    };
    const Options& one = switches[n];
    use(fmt::format("--device-id {}", one.device_id));
    for (const PortOption& port : one.ports) use("interface " + port.interface);
    if (!one.grpc_address.empty()) use("--grpc " + one.grpc_address);
    if (!one.trace_path.empty()) use("--trace " + one.trace_path);
  }
}

// Checks that both ends of each link between switches of one process name each other.
void check_links(const std::vector<Options>& switches) {
  struct End {
    const Options* of;
    std::string interface;
  };
  std::map<std::string, End> links;  // by port, such as "s1.2"
  for (const Options& one : switches)
    for (const PortOption& port : one.ports)
      links.emplace(fmt::format("{}.{}", one.name, port.number), End{&one, port.interface});
  for (const Options& one : switches) {
    for (const PortOption& port : one.ports) {
      if (!port.interface.starts_with(kLinkPrefix)) continue;
      const std::string self = fmt::format("{}.{}", one.name, port.number);
      const auto wrong = [&](const std::string& why) {
        return OptionError(
            fmt::format("switch {}: --port {}={}: {}", one.name, port.number, port.interface, why));
      };
      if (one.workers > 1)
        throw wrong(
            fmt::format("--workers {}: linked switches share one thread; valid: 1", one.workers));
      if (std::count_if(switches.begin(), switches.end(),
                        [&](const Options& other) { return other.name == one.name; }) > 1)
        throw wrong(fmt::format("another switch has --name {}", one.name));
      const auto peer = links.find(port.interface.substr(kLinkPrefix.size()));
      if (peer == links.end())
        throw wrong(
            fmt::format("no switch of this process has this port; valid: link:NAME.PORT "
                        "of a port that is link:{}",
                        self));
      const auto& [other, its_interface] = peer->second;
      if (its_interface != std::string(kLinkPrefix) + self)
        throw wrong(fmt::format("that port is {}; valid: link:{}", its_interface, self));
      if (peer->first == self) throw wrong("a port cannot be linked to itself");
      if (other->max_sleeps != one.max_sleeps)
        throw wrong(
            fmt::format("--max-sleeps {}, and of {} {}: linked switches share one thread; "
                        "valid: the same for both",
                        one.max_sleeps, other->name, other->max_sleeps));
    }
  }
}

void check_ports(const std::vector<PortOption>& ports) {
  std::set<std::uint32_t> numbers;
  std::set<std::string> interfaces;
  for (const PortOption& port : ports) {
    if (!numbers.insert(port.number).second)
      throw OptionError(fmt::format("--port: number {} is given twice", port.number));
    if (!interfaces.insert(port.interface).second)
      throw OptionError(fmt::format("--port: interface {} is given twice", port.interface));
  }
}

}  // namespace

double parse_rate(std::string_view text) {
  if (text == "0") return 0;
  const auto rate = read_rate(text);
  if (rate && *rate <= kMaxRate) return *rate;
  throw OptionError(fmt::format(
      "'{}' is not a rate; valid: {}, at most 1000Gbit/s; 0 means unlimited", text, kRateForms));
}

std::int64_t parse_duration(std::string_view text) {
  if (text == "0") return 0;
  const auto ns = read_duration(text);
  if (ns && *ns <= static_cast<double>(kMaxDelay)) return std::llround(*ns);
  throw OptionError(
      fmt::format("'{}' is not a delay; valid: {}, at most 60s; or 0", text, kDurationForms));
}

PortOption parse_port(std::string_view text, std::uint32_t cpu_port) {
  const std::string place = fmt::format("--port '{}'", text);
  const auto equals = text.find('=');
  if (equals == std::string_view::npos)
    throw OptionError(fmt::format("{}: no '='; valid: {}", place, kPortForm));

  PortOption port;
  const auto number = parse_integer<std::uint32_t>(text.substr(0, equals));
  if (!number || *number < 1 || *number > kMaxPort)
    throw OptionError(fmt::format("{}: port number '{}' is not one of 1 to {}", place,
                                  text.substr(0, equals), kMaxPort));
  if (*number == cpu_port)
    throw OptionError(
        fmt::format("{}: port number {} is the CPU port (--cpu-port)", place, *number));
  port.number = *number;

  std::string_view rest = text.substr(equals + 1);
  auto comma = rest.find(',');
  port.interface = rest.substr(0, comma);
  // Names of devices and links are checked where these are known.
  const bool kernels =
      !port.interface.starts_with(kDevicePrefix) && !port.interface.starts_with(kLinkPrefix);
  std::string_view interface = port.interface;
  if (interface.starts_with(kXdpPrefix)) interface.remove_prefix(kXdpPrefix.size());
  if (kernels && (interface.empty() || interface.size() > kMaxInterfaceName))
    throw OptionError(fmt::format("{}: interface name '{}' does not have 1 to {} characters", place,
                                  interface, kMaxInterfaceName));

  std::set<std::string_view> seen;
  while (comma != std::string_view::npos) {
    rest.remove_prefix(comma + 1);
    comma = rest.find(',');
    const std::string_view parameter = rest.substr(0, comma);
    const auto split = parameter.find('=');
    const std::string_view key = parameter.substr(0, split);
    const std::string_view value =
        split == std::string_view::npos ? std::string_view() : parameter.substr(split + 1);
    try {
      if (!seen.insert(key).second) throw OptionError("given twice");
      parse_port_parameter(key, value, port.link);
    } catch (const OptionError& error) {
      throw OptionError(fmt::format("{}: {}: {}", place, key, error.what()));
    }
  }
  return port;
}

ParseOutcome parse_command_line(int argc, const char* const* argv, Options& options) {
  CLI::App app(
      "A software P4 switch (v1model, PSA) on packet sockets, with a traffic manager per port "
      "and a P4Runtime server.",
      "tiercast-switch");
  app.footer(kExamples);
  app.set_version_flag("--version", std::string("tiercast-switch ") + TIERCAST_VERSION);
  std::vector<std::string> ports;
  app.add_option("--json", options.json_path, "Program: bmv2 JSON as p4c-bm2-ss writes it")
      ->check(CLI::ExistingFile);
  app.add_option("--p4info", options.p4info_path,
                 "P4Info of --json, text (.txt, .txtpb) or binary; P4Runtime needs it")
      ->check(CLI::ExistingFile);
  app.add_option("--device-id", options.device_id, "P4Runtime device id")
      ->required()
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed,
                 "Of the random numbers of wires, RED and the program (default: the device id)");
  app.add_option("--port", ports, std::string("A port: ") + kPortForm)
      ->required()
      ->expected(1, static_cast<int>(kMaxPort))
      ->allow_extra_args(false);
  app.add_option("--grpc", options.grpc_address,
                 "Serve P4Runtime and tiercast.v1 here: unix:/path or host:port");
  app.add_option("--tls", options.access.tls, control::kTlsHelp)
      ->check(CLI::ExistingDirectory)
      ->type_name("FOLDER");
  app.add_flag("--insecure", options.access.insecure, control::kInsecureHelp);
  app.add_option("--cpu-port", options.cpu_port, "Port number of packet-in and packet-out")
      ->check(CLI::Range(1u, kMaxPort))
      ->capture_default_str();
  app.add_option("--depth-register", options.depth_register,
                 "Register array in which a PSA program finds how many packets wait at each port")
      ->type_name("NAME");
  app.add_option("--workers", options.workers,
                 "Threads that share the ports (there is still one pipeline)")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--max-sleeps", options.max_sleeps,
                 "A busy thread sleeps at most so often in a second, which saves CPU; frames leave "
                 "up to 1/N s late (default: as often as it likes)")
      ->type_name("N")
      ->check(CLI::Range(kLeastSleeps, kMostSleeps));
  const std::map<std::string, NativeMode> modes = {
      {"off", NativeMode::kOff}, {"auto", NativeMode::kAuto}, {"wait", NativeMode::kWait}};
  std::string native = "auto";
  app.add_option(
         "--native", native,
         "Run the program as native code, which the machine's compiler ($CXX, c++) makes once "
         "for each program: off: interpret it; auto: interpret it until the code is ready; "
         "wait: take no packet before")
      ->check(CLI::IsMember({"off", "auto", "wait"}))
      ->capture_default_str();
  bool no_sandbox = false;
  app.add_flag("--no-sandbox", no_sandbox, kNoSandboxHelp);
  std::string sample, filter;
  CLI::Option* const trace =
      app.add_option("--trace", options.trace_path,
                     "Write what happens to packets and why, as JSON lines (-: stdout)");
  app.add_option("--trace-sample", sample, "Trace one of N frames: 1/N")->needs(trace);
  app.add_option("--trace-filter", filter,
                 "Trace only these frames: port=1,udp=5500,dst=239.192.0.8/29")
      ->needs(trace);
  bool for_the_help = false;  // only for --help, because parse_switches() removes this option first
  app.add_flag(
      "--switch", for_the_help,
      "Starts the options of one of several switches; options before the first are for all");
  app.add_option("--name", options.name, "Name in log lines")->capture_default_str();
  app.add_option("--log-level", options.log_level)
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    for (const std::string& text : ports)
      options.ports.push_back(parse_port(text, options.cpu_port));
    check_ports(options.ports);
    options.native = modes.at(native);
    options.sandbox = !no_sandbox;
    if (options.workers > options.ports.size())
      throw OptionError(fmt::format("--workers {}: at most one for each of {} ports",
                                    options.workers, options.ports.size()));
    for (const PortOption& port : options.ports)
      if (options.max_sleeps != 0 && port.interface.starts_with(kDevicePrefix))
        throw OptionError(
            fmt::format("--max-sleeps {}: --port {}={} is a polled device, so the thread never "
                        "sleeps; valid: only with kernel interfaces and links",
                        options.max_sleeps, port.number, port.interface));
    if (!sample.empty()) options.trace_one_in = parse_trace_sample(sample);
    if (!filter.empty()) options.trace_filter = parse_trace_filter(filter);
    if (!options.grpc_address.empty()) check_address(options.grpc_address);
    if (options.json_path.empty() && options.grpc_address.empty())
      throw OptionError("neither --json nor --grpc: the switch would never have a program");
    if (options.json_path.empty() && !options.p4info_path.empty())
      throw OptionError("--p4info needs --json, the program it describes");
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error, std::cout, std::cerr);
    return status == 0 ? ParseOutcome::kExitOk : ParseOutcome::kExitUsage;
  } catch (const OptionError& error) {
    fmt::print(stderr, "tiercast-switch: {}\n", error.what());
    return ParseOutcome::kExitUsage;
  }
  return ParseOutcome::kRun;
}

ParseOutcome parse_switches(int argc, const char* const* argv, std::vector<Options>& switches) {
  constexpr std::string_view kSwitch = "--switch";
  const char* const* const end = argv + argc;
  const char* const* group = std::find(argv, end, kSwitch);
  const std::vector<const char*> common(argv, group);
  do {
    std::vector<const char*> words = common;
    if (group != end) {
      const char* const* const next = std::find(group + 1, end, kSwitch);
      words.insert(words.end(), group + 1, next);
      group = next;
    }
    Options options;
    const ParseOutcome outcome =
        parse_command_line(static_cast<int>(words.size()), words.data(), options);
    if (outcome == ParseOutcome::kExitUsage && words.size() + 1 < static_cast<std::size_t>(argc)) {
      fmt::print(stderr, "tiercast-switch: in the options of switch {}\n", switches.size() + 1);
    }
    if (outcome != ParseOutcome::kRun) return outcome;
    switches.push_back(std::move(options));
  } while (group != end);
  try {
    check_apart(switches);
    check_links(switches);
  } catch (const OptionError& error) {
    fmt::print(stderr, "tiercast-switch: {}\n", error.what());
    return ParseOutcome::kExitUsage;
  }
  return ParseOutcome::kRun;
}

}  // namespace tiercast::vswitch
