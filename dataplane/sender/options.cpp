#include "dataplane/sender/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/sandbox.h"
#include "dataplane/dpdk/command_line.h"
#include "protocols/wire/wire.h"

namespace tiercast::sender {
namespace {

constexpr const char* kDescription =
    "Sends the layers of multicast sessions, each at the rate that its congestion control sets, on "
    "any number of DPDK ports.";

constexpr const char* kExamples = R"(Examples:
  in a lab, on a veth, without huge pages:
    tiercast-send --vdev=net_af_packet0,iface=h0-eth0 --no-huge --no-shconf -m 64 --no-pci \
      --no-telemetry -- --address 10.0.0.2 --gateway-mac 02:00:00:01:00:00 --lab unix:/run/lab.sock
  packets to a capture file for five seconds, records to the terminal:
    tiercast-send --vdev=net_pcap0,tx_pcap=/tmp/out.pcap --no-huge --no-shconf -m 64 --no-pci \
      --no-telemetry -- --address 10.0.0.2 --duration 5s --trace -
  the sessions of a file at line rate, sent by core 1, their feedback taken by core 0:
    tiercast-send -l 0,1 -a 0000:01:00.0 -- --address 10.0.0.2 --gateway 10.0.0.1 --poll \
      --sessions sessions.json
  the same over two ports, each with a core of its own:
    tiercast-send -l 0-2 -a 0000:01:00.0 -a 0000:01:00.1 -- --address 10.0.0.2 10.0.1.2 \
      --gateway 10.0.0.1 10.0.1.1 --poll --sessions sessions.json
  the schedule of one second of them, without a device, into plan.pcap and plan.json:
    tiercast-send -- --address 10.0.0.2 --sessions sessions.json --duration 1s --dry-run plan
A file of sessions: {"sessions": [{"session": 0, "count": 100, "scheme": "rlm", "layers": 8,
  "packet_size": 1000, "parameters": {"rlm.base_rate": "1Mbit/s"}}, {"session": 100}]}
A session with "port": "0000:01:00.1" is sent by that port; others go where the fewest layers are.
)";

// The value of port number `port`.
template <typename Value>
Value of_port(const std::vector<Value>& values, std::size_t port, const Value& otherwise) {
  if (values.empty()) return otherwise;
  return values.size() == 1 ? values.front() : values.at(port);
}

v1::Member parse_member(const std::string& text) {
  const std::size_t equals = text.find('=');
  v1::Member member;
  std::uint32_t id = 0;
  const char* const end = text.data() + std::min(equals, text.size());
  const auto [rest, error] = std::from_chars(text.data(), end, id);
  if (equals == std::string::npos || error != std::errc() || rest != end) {
    throw ConfigError("--member: '" + text + "'; valid: ID=ADDRESS, such as 15=10.0.15.2");
  }
  member.set_id(id);
  member.set_address(text.substr(equals + 1));
  agent::parse_ipv4(member.address(), "--member");
  return member;
}

}  // namespace

std::optional<int> SenderOptions::parse(const std::vector<std::string>& arguments) {
  const dpdk::CommandLine line(arguments);
  eal_arguments = line.eal_arguments;
  CLI::App app(kDescription, "tiercast-send");
  dpdk::add_help(app, kExamples);
  agent.name = "sender";
  agent.realtime = 1;
  agent.add_to(app);
  std::vector<std::string> address_texts, mac_texts, gateway_mac_texts, gateway_texts;
  app.add_option("--address", address_texts,
                 "IPv4 address to send from and to answer for; with several ports one for all, or "
                 "one each, as with the next three")
      ->required();
  app.add_option("--mac", mac_texts, "MAC address to send from; by default the device's");
  app.add_option("--gateway-mac", gateway_mac_texts,
                 "MAC address of the next hop of unicast messages [ff:ff:ff:ff:ff:ff]");
  app.add_option("--input", input,
                 "file to transfer to every receiver, by a reliable scheme (rla, mdpcc)")
      ->check(CLI::ExistingFile);
  std::vector<std::string> member_texts;
  app.add_option("--member", member_texts,
                 "a receiver's --id and its IPv4 address: feedback in its name is accepted from "
                 "there alone, and of others not at all; repeatable; without it, anybody's is")
      ->type_name("ID=ADDRESS")
      ->allow_extra_args(false);
  app.add_option("--gateway", gateway_texts,
                 "IPv4 address of that next hop; ARP finds its MAC address");
  std::string quantum_text;
  app.add_option(
         "--quantum", quantum_text,
         "packets that are due within this time of each other leave together, when the last "
         "of them is due; up to 10us; 0s: each by itself [100ns]")
      ->type_name("TIME");
  app.add_flag("--poll", poll, "never sleep between departures: for NICs and benchmarks");
  app.add_option(
         "--sessions", sessions,
         "file of sessions, as JSON (see below); without it, one session by the options above")
      ->check(CLI::ExistingFile);
  app.add_option("--max-sessions", max_sessions,
                 "sessions that may run at a time; by default as many as are given")
      ->check(CLI::Range(1, wire::kMaxSession + 1));
  std::string ramp_text;
  app.add_option("--ramp", ramp_text, "start the sessions spread over this time, such as 1s")
      ->type_name("TIME");
  app.add_option("--payload", payload,
                 "payload of packets: a file, repeated, or - for standard input; by default "
                 "byte i holds i mod 256");
  std::string vlan_text;
  app.add_option("--vlan", vlan_text, "VLAN tag of all frames")->type_name("ID[:PRIORITY]");
  app.add_option("--metrics", metrics,
                 "serve figures to Prometheus over HTTP at ADDRESS:PORT, such as 127.0.0.1:9464")
      ->type_name("ADDRESS:PORT");
  app.add_option("--control", control,
                 "serve tiercast.v1.Sender at unix:/path or host:port: sessions start, change and "
                 "stop while others run (tiercast sessions)")
      ->type_name("ADDRESS");
  app.add_option("--input-root", input_root,
                 "folder below which callers of --control may name files to transfer; without it "
                 "they may name any over a Unix socket, and none over TCP")
      ->check(CLI::ExistingDirectory)
      ->type_name("FOLDER");
  bool no_sandbox = false;
  app.add_flag("--no-sandbox", no_sandbox, kNoSandboxHelp);
  app.add_option("--dry-run", dry_run,
                 "no device: write the schedule of --duration to PREFIX.pcap and PREFIX.json")
      ->type_name("PREFIX");
  if (const auto status = agent::parse_command_line(app, line.own)) return status;

  if (dry_run.empty()) {
    line.require_eal_arguments(
        "tiercast-send --vdev=net_af_packet0,iface=NAME -- --address 10.0.0.2");
  }
  sandbox = !no_sandbox;
  scheme = &agent.check();
  for (const std::string& text : address_texts) {
    addresses.push_back(agent::parse_ipv4(text, "--address"));
    if (agent::is_multicast(addresses.back())) {
      throw ConfigError("--address: " + text + " is a multicast address; give a host's");
    }
  }
  for (const std::string& text : mac_texts) macs.push_back(agent::parse_mac(text, "--mac"));
  for (const std::string& text : gateway_mac_texts) {
    gateway_macs.push_back(agent::parse_mac(text, "--gateway-mac"));
  }
  for (const std::string& text : gateway_texts) {
    gateways.push_back(agent::parse_ipv4(text, "--gateway"));
  }
  for (const std::string& text : member_texts) members.push_back(parse_member(text));
  if (!vlan_text.empty()) vlan = dpdk::parse_vlan(vlan_text);
  if (!ramp_text.empty()) ramp = agent::parse_time(ramp_text, "--ramp");
  if (!quantum_text.empty()) {
    quantum = agent::parse_time(quantum_text, "--quantum");
    if (quantum > kMaxQuantum) {
      throw ConfigError("--quantum: " + quantum_text + " is too long: valid 0s to 10us");
    }
  }
  if (!members.empty() && (!sessions.empty() || !agent.lab.empty())) {
    throw ConfigError(
        "--member is for the session of the options; with --sessions it is `members` of a session, "
        "and a lab names the members itself");
  }
  if (agent.keys && !sessions.empty()) {
    throw ConfigError(
        "--keys is for the session of the options; with --sessions it is `keys` of a session");
  }
  if (many() && !agent.lab.empty()) {
    throw ConfigError(
        "--lab takes one session; leave out --sessions, --max-sessions and --control");
  }
  if (!dry_run.empty() && agent.duration == Duration::infinite()) {
    throw ConfigError("--dry-run needs --duration, the length of the schedule, such as 1s");
  }
  return std::nullopt;
}

void SenderOptions::check_ports(std::size_t ports) const {
  const auto check = [ports](const char* option, std::size_t values) {
    if (values <= 1 || values == ports) return;
    throw ConfigError(fmt::format("{}: {} values for {} port{}; valid: one for all{}", option,
                                  values, ports, ports == 1 ? "" : "s",
                                  ports == 1 ? "" : ", or one for each"));
  };
  check("--address", addresses.size());
  check("--mac", macs.size());
  check("--gateway-mac", gateway_macs.size());
  check("--gateway", gateways.size());
}

SenderAddresses SenderOptions::addresses_of(std::size_t port,
                                            const agent::MacAddress& device) const {
  constexpr auto kAll = std::byte{0xff};
  SenderAddresses out;
  out.own = {of_port(macs, port, device), of_port(addresses, port, 0u)};
  out.gateway = of_port(gateway_macs, port, {kAll, kAll, kAll, kAll, kAll, kAll});
  out.gateway_ip = of_port(gateways, port, 0u);
  out.vlan = vlan;
  return out;
}

}  // namespace tiercast::sender
