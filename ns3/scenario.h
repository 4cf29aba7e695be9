// What tiercast-ns3 is told on its first line of input: network, program, sessions, traffic.
// SPDX-License-Identifier: GPL-2.0-only
//
// Times are nanoseconds of virtual time, rates bit/s, addresses text. The lab writes it
// (mininet/tiercast_lab/run/ns3/); docs/ns3.md describes each key.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/engine/api/switch.h"
#include "ns3/on_off.h"
#include "protocols/wire/udp_frame.h"

namespace tiercast::ns3_runtime {

struct PeerPort {
  std::string name;        // of a switch or a host
  std::uint32_t port = 0;  // of a switch; 0: a host
};

struct PortSpec {
  std::uint32_t number = 0;
  engine::PortConfig config;
  PeerPort peer;
  std::string link;  // direction of the link, for the records: "1>3"
  bool recorded = true;
};

struct SwitchSpec {
  std::string name;
  std::vector<PortSpec> ports;
};

struct HostSpec {
  std::string name;
  std::uint32_t number = 0;
  std::uint32_t address = 0;  // IPv4, host order
  std::uint32_t gateway = 0;
  wire::MacAddress mac{};
  wire::MacAddress gateway_mac{};
  std::string switch_name;
  std::uint32_t switch_port = 0;
};

struct ReceiverSpec {
  std::string host;
  std::int64_t start_ns = 0;
  bool recorded = true;
};

// A receiver leaves its session, or joins again.
struct MemberSpec {
  std::int64_t at_ns = 0;
  std::uint16_t session = 0;
  std::string host;
  bool joins = false;
};

struct SessionSpec {
  std::string scheme;
  std::uint16_t session = 0;
  unsigned layers = 1;
  std::uint32_t packet_size = 1000;
  std::uint64_t seed = 1;
  std::int64_t start_ns = 0;
  std::string suffix;  // of its agents' names in records, behind the host's
  std::string sender;  // a host
  std::vector<ReceiverSpec> receivers;
  std::vector<std::string> assignments;
};

struct TcpSpec {
  std::string name;
  std::string from, to;  // hosts
  std::int64_t start_ns = 0;
  std::int64_t stop_ns = 0;
  std::uint32_t packet_size = 1000;  // IP bytes of a full segment
  std::string congestion = "reno";   // "reno", "newreno", "cubic"
  bool sack = true;
  bool ecn = false;
  bool delayed_acks = true;
  std::int64_t overhead_ns = 0;  // largest random time before a transmission
  std::uint32_t window_packets = 0;  // the sender's window grows no further; 0: no limit
  // Each on-period is a connection of its own; without, one connection from start to stop.
  std::optional<OnOffSpec> on_off;
};

struct UdpSpec {
  std::string name;
  std::string from, to;  // hosts
  std::int64_t start_ns = 0;
  std::int64_t stop_ns = 0;
  std::uint32_t packet_size = 1000;  // IP bytes
  std::int64_t rate_bps = 0;         // of IP bytes, while on
  std::optional<OnOffSpec> on_off;   // without: on from start to stop
};

// A change of a port; what is absent stays.
struct EventSpec {
  std::int64_t at_ns = 0;
  std::string switch_name;
  std::uint32_t port = 0;
  std::int64_t rate_bps = -1, queue_packets = -1, queue_bytes = -1, delay_ns = -1, rx_delay_ns = -1;
};

struct Scenario {
  std::string program;  // path of the bmv2 JSON
  std::uint64_t seed = 1;
  std::int64_t duration_ns = 0;
  std::int64_t record_every_ns = 0;  // at least so long between records of agents, ports and flows
  std::vector<SwitchSpec> switches;
  std::vector<HostSpec> hosts;
  std::vector<SessionSpec> sessions;
  std::vector<TcpSpec> tcp;
  std::vector<UdpSpec> udp;
  std::vector<MemberSpec> members;
  std::vector<EventSpec> events;

  // Throws ConfigError naming the key.
  static Scenario parse(const std::string& json);
};

}  // namespace tiercast::ns3_runtime
