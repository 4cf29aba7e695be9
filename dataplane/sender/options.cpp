#include "dataplane/sender/options.h"

#include <algorithm>

namespace tiercast::sender {
namespace {

constexpr const char* kDescription =
    "Sends the layers of one multicast session, each at the rate that its congestion control sets, "
    "on one DPDK "
    "port.\nCommand line: tiercast-send EAL-ARGUMENTS -- OPTIONS";

constexpr const char* kExamples = R"(Examples:
  in a lab, on a veth, without huge pages:
    tiercast-send --vdev=net_af_packet0,iface=h0-eth0 --no-huge --no-shconf -m 64 --no-pci \
      --no-telemetry -- --address 10.0.0.2 --gateway-mac 02:00:00:01:00:00 --lab unix:/run/lab.sock
  packets to a capture file for five seconds, records to the terminal:
    tiercast-send --vdev=net_pcap0,tx_pcap=/tmp/out.pcap --no-huge --no-shconf -m 64 --no-pci \
      --no-telemetry -- --address 10.0.0.2 --duration 5s --trace -
)";

}  // namespace

std::optional<int> SenderOptions::parse(const std::vector<std::string>& arguments) {
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> own;
  if (separator != arguments.end()) {
    eal_arguments.assign(arguments.begin(), separator);
    own.assign(separator + 1, arguments.end());
  } else {
    own = arguments;  // for --help and --version
  }

  CLI::App app(kDescription, "tiercast-send");
  app.footer(kExamples);
  app.set_version_flag("--version", "tiercast-send " TIERCAST_VERSION);
  agent.name = "sender";
  agent.realtime = 1;
  agent.add_to(app);
  std::string address_text;
  std::string mac_text;
  std::string gateway_text = "ff:ff:ff:ff:ff:ff";
  app.add_option("--address", address_text, "IPv4 address to send from and to answer for")
      ->required();
  app.add_option("--mac", mac_text, "MAC address to send from; by default the device's");
  app.add_option("--gateway-mac", gateway_text, "MAC address of the next hop of unicast messages")
      ->capture_default_str();
  app.add_option("--input", input,
                 "file to transfer to every receiver, by a reliable scheme (rla, mdpcc)")
      ->check(CLI::ExistingFile);
  if (const auto status = agent::parse_command_line(app, std::move(own))) return status;

  if (separator == arguments.end()) {
    throw ConfigError(
        "no EAL arguments: the device stands before '--', as in "
        "'tiercast-send --vdev=net_af_packet0,iface=NAME -- --address 10.0.0.2'");
  }
  scheme = &agent.check();
  address = agent::parse_ipv4(address_text, "--address");
  if (agent::is_multicast(address)) {
    throw ConfigError("--address: " + address_text + " is a multicast address; give a host's");
  }
  if (!mac_text.empty()) mac = agent::parse_mac(mac_text, "--mac");
  gateway_mac = agent::parse_mac(gateway_text, "--gateway-mac");
  return std::nullopt;
}

}  // namespace tiercast::sender
