#include "dataplane/receiver/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "agent/address.h"
#include "agent/options.h"
#include "dataplane/dpdk/command_line.h"
#include "protocols/wire/wire.h"

namespace tiercast::receiver {
namespace {

constexpr const char* kDescription =
    "Receives multicast streams on any number of DPDK ports, and counts for each what was lost, "
    "doubled, reordered (RFC 4737), marked and delayed.";

constexpr const char* kExamples = R"(Examples:
  two layers of session 1 that 10.0.0.2 sends, on a veth, without huge pages:
    tiercast-recv --vdev=net_af_packet0,iface=r0 --no-huge --no-shconf -m 128 --no-pci -- \
      --address 10.0.0.15 --source 10.0.0.2 --session 1/0-1
  whatever is in a capture file, without joining anything:
    tiercast-recv --vdev=net_pcap0,rx_pcap=in.pcap --no-huge --no-shconf -m 128 --no-pci -- \
      --any --duration 2s --json found.json
  a hundred sessions on a NIC, by core 1, figures for Prometheus:
    tiercast-recv -l 1 -a 0000:01:00.0 -- --address 10.0.0.15 --source 10.0.0.2 \
      --session 0-99 --poll --metrics 127.0.0.1:9465
)";

// "7" or "0-7".
std::pair<std::uint32_t, std::uint32_t> parse_range(const std::string& text, std::uint32_t most,
                                                    const std::string& error) {
  const std::size_t dash = text.find('-');
  const auto number = [&](const std::string& digits) {
    if (digits.empty() || digits.size() > 5 ||
        !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      throw ConfigError(error);
    }
    return static_cast<std::uint32_t>(std::stoul(digits));
  };
  const std::uint32_t first = number(text.substr(0, dash));
  const std::uint32_t last = dash == std::string::npos ? first : number(text.substr(dash + 1));
  if (last < first || last > most) throw ConfigError(error);
  return {first, last};
}

}  // namespace

std::vector<std::uint32_t> parse_sessions(const std::string& text, const char* option) {
  const std::string error = fmt::format(
      "{}: '{}' is not SESSION or SESSION/RANK; valid: sessions 0 to {} and ranks 0 to {}, or "
      "ranges of them, as in 3, 3/0 or 0-99/0-3",
      option, text, wire::kMaxSession, wire::kMaxRank);
  const std::size_t slash = text.find('/');
  const auto [first, last] = parse_range(text.substr(0, slash), wire::kMaxSession, error);
  const auto [bottom, top] = slash == std::string::npos
                                 ? std::pair<std::uint32_t, std::uint32_t>(0, wire::kMaxRank)
                                 : parse_range(text.substr(slash + 1), wire::kMaxRank, error);
  std::vector<std::uint32_t> groups;
  for (std::uint32_t session = first; session <= last; ++session) {
    for (std::uint32_t rank = bottom; rank <= top; ++rank) {
      groups.push_back(wire::group_address(static_cast<std::uint16_t>(session),
                                           static_cast<std::uint8_t>(rank)));
    }
  }
  return groups;
}

Subscription parse_group(const std::string& text, const char* option) {
  const std::size_t comma = text.find(',');
  Subscription one;
  one.group = agent::parse_ipv4(text.substr(0, comma), option);
  if (!agent::is_multicast(one.group)) {
    throw ConfigError(fmt::format("{}: {} is not a group; valid: 224.0.0.0 to 239.255.255.255",
                                  option, text.substr(0, comma)));
  }
  if (comma != std::string::npos) {
    one.source = agent::parse_ipv4(text.substr(comma + 1), option);
  }
  return one;
}

std::optional<int> ReceiverOptions::parse(const std::vector<std::string>& arguments) {
  const dpdk::CommandLine line(arguments);
  eal_arguments = line.eal_arguments;
  CLI::App app(kDescription, "tiercast-recv");
  dpdk::add_help(app, kExamples);
  std::string address_text, source_text, duration_text, vlan_text;
  std::vector<std::string> sessions, groups, pcap_sessions;
  app.add_option("--address", address_text,
                 "IPv4 address that joins groups and answers ARP and echo requests");
  app.add_option("--session", sessions,
                 "join these layers of sessions: 3 (all layers), 3/0, 0-99/0-3; may be repeated")
      ->type_name("SESSIONS[/RANKS]");
  app.add_option("--source", source_text, "their sender; without it they are joined for any source")
      ->type_name("ADDRESS");
  app.add_option("--group", groups, "join this group, for any source or one; may be repeated")
      ->type_name("GROUP[,SOURCE]");
  app.add_flag("--any", any, "also count the data of groups that were not joined");
  app.add_option("--igmp", igmp_version, "version of IGMP; 3 follows a querier of version 2")
      ->check(CLI::Range(2, 3))
      ->capture_default_str();
  app.add_option("--streams", streams,
                 "room for so many streams (2.2 kB each) on each port; by default for those "
                 "joined, and 1024")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--duration", duration_text, "end after this time, such as 10s")
      ->type_name("TIME");
  app.add_flag("--poll", poll, "never sleep: for NICs and benchmarks");
  app.add_option("--packet-size", packet_size,
                 "IP bytes of the largest packet that may arrive; needed above 1500")
      ->check(CLI::Range(46, 9216));
  app.add_option("--vlan", vlan_text, "VLAN tag of all frames; those of others are foreign")
      ->type_name("ID[:PRIORITY]");
  app.add_option("--json", json, "write everything that was counted to this file, at the end")
      ->type_name("FILE");
  app.add_option("--metrics", metrics,
                 "serve figures to Prometheus over HTTP at ADDRESS:PORT, such as 127.0.0.1:9465")
      ->type_name("ADDRESS:PORT");
  app.add_flag("--insecure", insecure, "let --metrics listen beyond the loopback device");
  app.add_option("--pcap", pcap, "write the data packets that arrive to this capture file")
      ->type_name("FILE");
  app.add_option("--pcap-session", pcap_sessions, "only those of these layers; may be repeated")
      ->type_name("SESSIONS[/RANKS]");
  app.add_option("--ready", ready, "create this file once all ports receive, for scripts")
      ->type_name("FILE");
  if (const auto status = agent::parse_command_line(app, line.own)) return status;

  line.require_eal_arguments("tiercast-recv --vdev=net_af_packet0,iface=NAME --no-huge -- --any");
  const std::uint32_t source = source_text.empty() ? 0 : agent::parse_ipv4(source_text, "--source");
  for (const std::string& text : sessions) {
    for (const std::uint32_t group : parse_sessions(text, "--session")) {
      join.push_back({group, source});
    }
  }
  for (const std::string& text : groups) join.push_back(parse_group(text, "--group"));
  if (join.empty() && !any) {
    throw ConfigError("nothing to receive: give --session, --group, or --any for all that arrives");
  }
  if (!address_text.empty()) {
    address = agent::parse_ipv4(address_text, "--address");
    if (agent::is_multicast(address)) {
      throw ConfigError("--address: " + address_text + " is a multicast address; give a host's");
    }
  } else if (!join.empty()) {
    throw ConfigError("--session and --group need --address, from which reports are sent");
  }
  for (const std::string& text : pcap_sessions) {
    const auto some = parse_sessions(text, "--pcap-session");
    pcap_groups.insert(pcap_groups.end(), some.begin(), some.end());
  }
  std::sort(pcap_groups.begin(), pcap_groups.end());
  if (!pcap_groups.empty() && pcap.empty()) throw ConfigError("--pcap-session needs --pcap");
  if (!vlan_text.empty()) vlan = dpdk::parse_vlan(vlan_text);
  if (!duration_text.empty()) duration = agent::parse_time(duration_text, "--duration");
  constexpr std::uint32_t kSpareStreams = 1024;
  if (streams == 0) {
    streams = std::max(static_cast<std::uint32_t>(join.size()), kSpareStreams);
  }
  if (join.size() > streams) {
    throw ConfigError(fmt::format("--streams: {} is less than the {} groups that are joined",
                                  streams, join.size()));
  }
  return std::nullopt;
}

}  // namespace tiercast::receiver
