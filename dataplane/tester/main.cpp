// tiercast-tester: sends and receives test frames on DPDK ports, as it is told on standard input.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "agent/address.h"
#include "agent/options.h"
#include "agent/run.h"
#include "dataplane/dpdk/command_line.h"
#include "dataplane/dpdk/eal.h"
#include "dataplane/tester/commands.h"

namespace {

using namespace tiercast;

constexpr const char* kDescription =
    "Sends and receives test frames on DPDK ports, for `tiercast bench`. Reads commands from "
    "standard input, a line of JSON each, and answers each with a line; ends with the input.";

constexpr const char* kExamples = R"(Example:
  echo '{"do": "trial", "from": 0, "frame": 64, "rate": 1000, "frames": 100,
    "to": [{"first": "239.192.0.0"}]}' | tr -d '\n' | tiercast-tester --vdev=net_ring0 --no-huge \
    --no-shconf -m 256 --no-pci -- --port net_ring0=10.0.0.2
)";

int run(const std::vector<std::string>& arguments) {
  const dpdk::CommandLine line(arguments);
  CLI::App app(kDescription, "tiercast-tester");
  dpdk::add_help(app, kExamples);
  std::vector<std::string> names;
  tester::Tester::Limits limits;
  limits.streams = 4096;
  app.add_option("--port", names,
                 "a device of the EAL and its IPv4 address; in the order of the ports' numbers")
      ->type_name("DEVICE=ADDRESS")
      ->required();
  app.add_option("--streams", limits.streams, "room for so many streams and groups on each port")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--packet-size", limits.largest_ip,
                 "IP bytes of the largest packet; needed above 1500")
      ->check(CLI::Range(46, 9000));
  app.add_option("--igmp", limits.igmp_version, "version of IGMP")
      ->check(CLI::Range(2, 3))
      ->capture_default_str();
  app.add_flag("--poll", limits.poll, "never sleep: for NICs");
  if (const auto status = agent::parse_command_line(app, line.own)) return *status;
  line.require_eal_arguments("tiercast-tester --vdev=net_ring0 -- --port net_ring0=10.0.0.2");
  const dpdk::Eal eal("tiercast-tester", line.eal_arguments);
  std::vector<std::uint16_t> devices;
  std::vector<std::uint32_t> addresses;
  for (const std::string& name : names) {
    const std::size_t equals = name.find('=');
    if (equals == std::string::npos)
      throw ConfigError("--port: '" + name + "' is not DEVICE=ADDRESS");
    devices.push_back(eal.device(name.substr(0, equals)));
    addresses.push_back(agent::parse_ipv4(name.substr(equals + 1), "--port"));
  }
  tester::Tester tester(devices, addresses, limits);
  std::string command;
  while (std::getline(std::cin, command)) {
    if (command.empty()) continue;
    std::cout << tester::answer(tester, command) << std::endl;
    if (!std::cout) break;  // nobody hears it, and run_main() says why
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return tiercast::agent::run_main("tiercast-tester", argc, argv, run);
}
