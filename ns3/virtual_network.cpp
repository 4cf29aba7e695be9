// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/virtual_network.h"

#include <ns3/simulator.h>

#include <fstream>
#include <sstream>

#include "dataplane/engine/api/program.h"
#include "dataplane/engine/control/output.h"
#include "protocols/base/units.h"

namespace tiercast::ns3_runtime {
namespace {

std::int64_t now_ns() { return ns3::Simulator::Now().GetNanoSeconds(); }

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(path + ": cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

// A switch, the event for its next step, and what it calls back.
class VirtualNetwork::Node : public engine::Output {
 public:
  Node(VirtualNetwork& network, const SwitchSpec& spec,
       std::shared_ptr<const engine::Program> program, engine::Switch::Options options)
      : network_(network), switch_(std::move(program), std::move(options), *this) {
    for (const PortSpec& port : spec.ports) {
      const engine::Status status = switch_.set_port(port.number, port.config, 0);
      if (!status.ok()) throw ConfigError(spec.name + ": " + status.message());
      if (port.number >= peers_.size()) peers_.resize(port.number + 1);
    }
  }

  void connect(std::uint32_t port, const Peer& peer) { peers_[port] = peer; }

  void receive(std::uint32_t port, std::span<const std::byte> frame) {
    switch_.receive(port, frame, now_ns());
    go_on();
  }

  void schedule() {
    const std::int64_t next = switch_.next_event();
    if (next == due_ && event_.IsRunning()) return;
    event_.Cancel();
    due_ = next;
    if (next == engine::Switch::kNever) return;
    event_ = ns3::Simulator::Schedule(ns3::NanoSeconds(std::max<std::int64_t>(0, next - now_ns())),
                                      &Node::advance, this);
  }

  engine::Switch& engine_switch() { return switch_; }

 private:
  void advance() {
    switch_.advance(now_ns());
    go_on();
  }

  void go_on() {
    if (leaving_ != nullptr) {
      ns3::Simulator::ScheduleNow(&VirtualNetwork::land, &network_, leaving_);
      leaving_ = nullptr;
    }
    schedule();
  }

  void transmit(std::uint32_t port, std::span<const std::byte> frame, std::int64_t) override {
    if (port >= peers_.size()) return;
    const Peer& peer = peers_[port];
    if (peer.node == nullptr && peer.host == nullptr) return;
    if (leaving_ == nullptr) leaving_ = network_.take_flight();
    leaving_->frames.push_back({&peer, frame.size()});
    leaving_->bytes.insert(leaving_->bytes.end(), frame.begin(), frame.end());
  }

  // The controller learns of joins from the agents themselves.
  void packet_in(std::span<const std::byte>) override {}

  VirtualNetwork& network_;
  engine::Switch switch_;
  std::vector<Peer> peers_;  // by port
  Flight* leaving_ = nullptr;
  ns3::EventId event_;
  std::int64_t due_ = engine::Switch::kNever;
};

VirtualNetwork::VirtualNetwork(const Scenario& scenario) : scenario_(scenario) {
  const auto program = engine::Program::load(read_file(scenario.program), scenario.program);
  engine::Switch::Options options;
  options.pool = engine::make_packet_pool(*program);
  options.seed = scenario.seed;
  options.label = accounts::by_group();
  for (const SwitchSpec& spec : scenario.switches) {
    ++options.seed;
    nodes_[spec.name] = std::make_unique<Node>(*this, spec, program, options);
  }
  for (const HostSpec& host : scenario.hosts) {
    hosts_[host.name] = &host;
    endpoints_[host.name];
  }
  for (const SwitchSpec& spec : scenario.switches) {
    for (const PortSpec& port : spec.ports) {
      const bool is_host = port.peer.port == 0;
      if (!(is_host ? endpoints_.contains(port.peer.name) : nodes_.contains(port.peer.name))) {
        throw ConfigError(spec.name + " port " + std::to_string(port.number) + ": no peer '" +
                          port.peer.name + "'");
      }
      nodes_[spec.name]->connect(
          port.number, is_host ? Peer{nullptr, 0, &endpoints_[port.peer.name]}
                               : Peer{nodes_[port.peer.name].get(), port.peer.port, nullptr});
    }
  }
}

VirtualNetwork::~VirtualNetwork() = default;

const HostSpec& VirtualNetwork::host(const std::string& name) const {
  const auto found = hosts_.find(name);
  if (found == hosts_.end()) throw ConfigError("scenario: no host '" + name + "'");
  return *found->second;
}

void VirtualNetwork::attach(const std::string& host_name, HostEndpoint& endpoint) {
  endpoints_[host(host_name).name].push_back(&endpoint);
}

void VirtualNetwork::send(const HostSpec& host, std::span<const std::byte> frame) {
  nodes_.at(host.switch_name)->receive(host.switch_port, frame);
}

VirtualNetwork::Flight* VirtualNetwork::take_flight() {
  if (landed_.empty()) return flights_.emplace_back(std::make_unique<Flight>()).get();
  Flight* flight = landed_.back();
  landed_.pop_back();
  return flight;
}

void VirtualNetwork::land(Flight* flight) {
  const std::byte* bytes = flight->bytes.data();
  for (const auto& [to, size] : flight->frames) {
    const std::span<const std::byte> frame(bytes, size);
    bytes += size;
    if (to->node != nullptr) {
      to->node->receive(to->port, frame);
      continue;
    }
    for (HostEndpoint* endpoint : *to->host) endpoint->receive(frame);
  }
  flight->frames.clear();
  flight->bytes.clear();
  landed_.push_back(flight);
}

engine::Switch& VirtualNetwork::at(const std::string& name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) throw ConfigError("no switch '" + name + "'");
  return found->second->engine_switch();
}

void VirtualNetwork::changed(const std::string& name) { nodes_.at(name)->schedule(); }

void VirtualNetwork::apply(const EventSpec& event) {
  engine::Switch& changing = at(event.switch_name);
  engine::PortConfig config = changing.port_config(event.port).value();
  if (event.rate_bps >= 0) config.rate_bps = static_cast<double>(event.rate_bps);
  if (event.queue_packets >= 0) {
    config.queue_packets = static_cast<std::uint32_t>(event.queue_packets);
  }
  if (event.queue_bytes >= 0) config.queue_bytes = static_cast<std::uint64_t>(event.queue_bytes);
  if (event.delay_ns >= 0) config.delay_ns = event.delay_ns;
  if (event.rx_delay_ns >= 0) config.rx_delay_ns = event.rx_delay_ns;
  const engine::Status status = changing.set_port(event.port, config, now_ns());
  if (!status.ok()) throw ConfigError(event.switch_name + ": " + status.message());
  changed(event.switch_name);
}

std::vector<VirtualNetwork::PortView> VirtualNetwork::ports(bool recorded) {
  std::vector<PortView> result;
  for (const SwitchSpec& spec : scenario_.switches) {
    engine::Switch& node = nodes_.at(spec.name)->engine_switch();
    for (const PortSpec& port : spec.ports) {
      if (port.recorded != recorded) continue;
      result.push_back(
          {spec.name, port, node.stats(port.number, true), accounts::read(node, port.number)});
    }
  }
  return result;
}

}  // namespace tiercast::ns3_runtime
