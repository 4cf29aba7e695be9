// The switches of a run and the links between them, on ns-3's clock. Each switch is the same engine
// as in real time, with the same P4 program.
// SPDX-License-Identifier: GPL-2.0-only
//
// The engine's traffic manager implements the rate, queue and delay of a link. Frames that leave a
// switch's wires at the same time are passed to the peers in an event of its own, at that instant.
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
#include "ns3/capture.h"
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
  explicit VirtualNetwork(const v1::Scenario& scenario);
  ~VirtualNetwork();

  const HostSpec& host(const std::string& name) const;
  // Several endpoints may share a host; each gets every frame.
  void attach(const std::string& host, HostEndpoint& endpoint);
  // Sends a frame from a host into its switch, now.
  void send(const HostSpec& host, std::span<const std::byte> frame);

  // Throws ConfigError if there is no such switch.
  engine::Switch& at(const std::string& name);
  // To be called after changes by the controller or to links, because the switch's next event may
  // have changed.
  void changed(const std::string& name);
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
    std::unique_ptr<Capture> capture;
  };
  // The frames that left a switch at the same time, in their order.
  struct Flight {
    struct Frame {
      const Peer* to;
      std::size_t size;
    };
    std::vector<Frame> frames;
    std::vector<std::byte> bytes;  // of all frames, one after another
  };

  Flight* take_flight();
  void land(Flight* flight);

  const v1::Scenario& scenario_;
  std::unordered_map<std::string, std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, HostSpec> hosts_;
  std::unordered_map<std::string, Endpoints> endpoints_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<Flight*> landed_;  // for reuse
};

}  // namespace tiercast::ns3_runtime
