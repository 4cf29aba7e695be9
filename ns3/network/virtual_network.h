// The switches of a run and the links between them, in virtual time. Each switch is the same engine
// as in real time, with the same P4 program.
// SPDX-License-Identifier: GPL-2.0-only
//
// The engine's traffic manager implements the rate, queue and delay of a link. Frames that leave a
// switch's wires at the same time are passed to hosts, and to switches of the same logical process,
// in an event of its own, at that instant. To others they are messages, sent while they are still
// on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dataplane/accounts/accounts.h"
#include "dataplane/engine/api/switch.h"
#include "dataplane/trace/hop_trace.h"
#include "ns3/kernel/kernel.h"
#include "ns3/network/capture.h"
#include "ns3/network/division.h"
#include "protocols/wire/udp_frame.h"
#include "tiercast/v1/simulation.pb.h"

namespace tiercast::ns3_runtime {

struct HostSpec {
  explicit HostSpec(const v1::SimulatedHost& host);

  std::string name;
  std::uint32_t number;
  std::uint32_t address;  // IPv4 address, host order
  std::uint32_t gateway;
  wire::MacAddress mac;
  wire::MacAddress gateway_mac;
  std::string switch_name;
  std::uint32_t switch_port;
};

// Something attached to a port that leads to a host.
class HostEndpoint {
 public:
  virtual ~HostEndpoint() = default;
  virtual void receive(std::span<const std::byte> frame) = 0;
};

class VirtualNetwork {
 public:
  // Loads the program (engine::LoadError) and makes all switches, links and captures (ConfigError).
  // `kernel` has the processes of the division.
  VirtualNetwork(const v1::Scenario& scenario, const Division& division, Kernel& kernel);
  ~VirtualNetwork();

  const HostSpec& host(const std::string& name) const;
  // Several endpoints may share a host; each gets every frame.
  void attach(const std::string& host, HostEndpoint& endpoint);
  // The process of the switch and its hosts. Throws ConfigError if there is no such switch.
  LogicalProcess& process_of(const std::string& switch_name);
  // Sends a frame from a host into its switch, now, which is when the host's process runs.
  void send(const HostSpec& host, std::span<const std::byte> frame);

  // Throws ConfigError if there is no such switch.
  engine::Switch& at(const std::string& name);
  // In a pause of the kernel, as everything below.
  void apply(const v1::PortChange& change);

  struct PortView {
    const std::string& switch_name;
    const v1::SimulatedPort& port;
    engine::PortStats stats;
    accounts::PortAccounts accounts;
  };
  // In the order of the scenario: the ports that are recorded, or those that are not. Restarts the
  // maxima.
  std::vector<PortView> ports(bool recorded = true);
  // Closes all captures. Throws ConfigError if one cannot be written.
  void finish_captures();
  // The trace of a switch; null: it has none.
  trace::HopTrace* trace_of(const std::string& name);

 private:
  class Node;
  using Endpoints = std::vector<HostEndpoint*>;

  // What a switch's port leads to: a switch or a host.
  struct Peer {
    Node* node = nullptr;
    std::uint32_t port = 0;
    const Endpoints* host = nullptr;  // if set, replaces node
    bool is_remote = false;           // a switch of another process
    std::unique_ptr<Capture> capture;
  };
  class Flight;

  Node& node(const std::string& name) const;

  const v1::Scenario& scenario_;
  std::unordered_map<std::string, std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, HostSpec> hosts_;
  std::unordered_map<std::string, Endpoints> endpoints_;
};

}  // namespace tiercast::ns3_runtime
