// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/network/virtual_network.h"

#include <limits>
#include <map>
#include <optional>

#include "dataplane/engine/api/program.h"
#include "dataplane/engine/control/output.h"
#include "dataplane/engine/queues/wire_message.h"
#include "dataplane/native/native_code.h"
#include "dataplane/updates/switch_updates.h"
#include "protocols/base/units.h"

namespace tiercast::ns3_runtime {
namespace {

wire::MacAddress mac_of(std::uint64_t number) {
  wire::MacAddress result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = static_cast<std::byte>(number >> 8 * (result.size() - 1 - i));
  }
  return result;
}

struct Loaded {
  std::shared_ptr<const engine::Program> program;
  // Switches of one program and thread share its packets.
  std::map<std::uint32_t, std::shared_ptr<engine::PacketPool>> pools;  // by thread
  std::shared_ptr<const engine::NativeProgram> native;                 // null: it is interpreted
};

Loaded load(const std::string& path) {
  Loaded result{updates::load_program(path), {}, nullptr};
  result.native = native::find_prebuilt(*result.program).program;
  return result;
}

}  // namespace

HostSpec::HostSpec(const v1::SimulatedHost& host)
    : name(host.name()),
      number(host.number()),
      address(host.address()),
      gateway(host.gateway()),
      mac(mac_of(host.mac())),
      gateway_mac(mac_of(host.gateway_mac())),
      switch_name(host.switch_()),
      switch_port(host.switch_port()) {}

// Frames that left a switch at the same time, in their order, and the event in which they arrive.
class VirtualNetwork::Flight final : public Event {
 public:
  explicit Flight(Node& from) : from_(from) {}
  void add(const Peer& to, std::span<const std::byte> frame) {
    frames_.push_back({&to, frame.size()});
    bytes_.insert(bytes_.end(), frame.begin(), frame.end());
  }
  void run() override;

 private:
  struct Frame {
    const Peer* to;
    std::size_t size;
  };
  Node& from_;
  std::vector<Frame> frames_;
  std::vector<std::byte> bytes_;  // of all frames, one after another
};

// A switch, the event for its next step, and its callbacks.
class VirtualNetwork::Node : public engine::Output, public Receiver, public Source {
 public:
  // `number`: of the switch.
  Node(LogicalProcess& process, std::uint32_t number, const v1::SimulatedSwitch& spec,
       std::shared_ptr<const engine::Program> program, engine::Switch::Options options)
      : process_(process), number_(number), switch_(std::move(program), std::move(options), *this) {
    process.add(*this);
    for (const v1::SimulatedPort& port : spec.ports()) {
      const engine::Status status = switch_.set_port(port.port(), updates::port_config(port), 0);
      if (!status.ok()) throw ConfigError(spec.name() + ": " + status.message());
      if (port.port() >= peers_.size()) peers_.resize(port.port() + 1);
    }
    std::map<std::uint32_t, trace::TracedPort> traced;
    for (const v1::PortTrace& port : spec.traces()) {
      traced[port.port()] = {port.share(), {port.registers().begin(), port.registers().end()}};
    }
    if (traced.empty()) return;
    trace_.emplace(std::move(traced), std::numeric_limits<std::size_t>::max());
    switch_.set_trace(&*trace_);
  }

  void connect(std::uint32_t port, Peer peer) {
    peer.is_remote = peer.node != nullptr && &peer.node->process_ != &process_;
    if (peer.is_remote) remote_ports_.push_back(port);
    peers_[port] = std::move(peer);
  }

  void capture_hosts_frames(std::uint32_t port, const v1::Capture& spec) {
    rx_captures_.resize(peers_.size());
    rx_captures_[port] = std::make_unique<Capture>(spec);
  }

  void finish_captures() {
    for (const Peer& peer : peers_) {
      if (peer.capture != nullptr) peer.capture->finish();
    }
    for (const auto& capture : rx_captures_) {
      if (capture != nullptr) capture->finish();
    }
  }

  void receive(std::uint32_t port, std::span<const std::byte> frame) override {
    if (port < rx_captures_.size() && rx_captures_[port] != nullptr) {
      rx_captures_[port]->add(process_.now(), frame);
    }
    switch_.receive(port, frame, process_.now());
    go_on();
  }

  void hand_over(std::int64_t before_ns) override {
    if (switch_.next_event() >= before_ns) return;
    for (const std::uint32_t port : remote_ports_) switch_.deliver_before(port, before_ns);
    schedule();
  }

  // After the switch has been called, because it may have sent frames, and its next event may be
  // another one.
  void go_on() {
    if (leaving_ != nullptr) {
      process_.schedule(*leaving_, process_.now());
      leaving_ = nullptr;
    }
    schedule();
  }

  void landed(Flight& flight) { landed_.push_back(&flight); }

  LogicalProcess& process() { return process_; }
  engine::Switch& engine_switch() { return switch_; }
  trace::HopTrace* trace() { return trace_ ? &*trace_ : nullptr; }

 private:
  void advance() {
    switch_.advance(process_.now());
    go_on();
  }

  void schedule() {
    const std::int64_t next = switch_.next_event();
    if (next == due_ && advance_.waits()) return;
    due_ = next;
    if (next == engine::Switch::kNever) return process_.cancel(advance_);
    process_.schedule(advance_, next);
  }

  void transmit(std::uint32_t port, std::span<const std::byte> frame,
                std::int64_t due_ns) override {
    if (port >= peers_.size()) return;
    const Peer& peer = peers_[port];
    if (peer.node == nullptr && peer.host == nullptr) return;
    if (peer.capture != nullptr) peer.capture->add(due_ns, frame);
    if (peer.is_remote) {
      process_.send(peer.node->process_, {due_ns, number_, peer.port, sent_++, peer.node, frame});
      return;
    }
    if (leaving_ == nullptr) leaving_ = &take_flight();
    leaving_->add(peer, frame);
  }

  Flight& take_flight() {
    if (landed_.empty()) return *flights_.emplace_back(std::make_unique<Flight>(*this));
    Flight& flight = *landed_.back();
    landed_.pop_back();
    return flight;
  }

  // Agents tell the controller about joins themselves.
  void packet_in(std::span<const std::byte>) override {}

  LogicalProcess& process_;
  const std::uint32_t number_;
  std::uint64_t sent_ = 0;  // messages
  std::optional<trace::HopTrace> trace_;
  engine::Switch switch_;
  std::vector<Peer> peers_;  // by port
  std::vector<std::uint32_t> remote_ports_;
  std::vector<std::unique_ptr<Capture>> rx_captures_;  // by port; empty without any
  Flight* leaving_ = nullptr;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<Flight*> landed_;  // of those, for reuse
  Call<Node> advance_{*this, &Node::advance};
  std::int64_t due_ = engine::Switch::kNever;  // of advance_
};

void VirtualNetwork::Flight::run() {
  const std::byte* bytes = bytes_.data();
  for (const auto& [to, size] : frames_) {
    const std::span<const std::byte> frame(bytes, size);
    bytes += size;
    if (to->node != nullptr) {
      to->node->receive(to->port, frame);
      continue;
    }
    for (HostEndpoint* endpoint : *to->host) endpoint->receive(frame);
  }
  frames_.clear();
  bytes_.clear();
  from_.landed(*this);
}

VirtualNetwork::VirtualNetwork(const v1::Scenario& scenario, const Division& division,
                               Kernel& kernel)
    : scenario_(scenario) {
  std::map<std::string, Loaded> programs;  // by path
  engine::Switch::Options options;
  options.seed = scenario.seed();
  options.label = accounts::by_group();
  for (const v1::SimulatedSwitch& spec : scenario.switches()) {
    const std::string& path = spec.program().empty() ? scenario.program() : spec.program();
    const auto [found, is_new] = programs.try_emplace(path);
    if (is_new) found->second = load(path);
    const std::size_t number = nodes_.size();
    const std::uint32_t process = division.process_of.at(number);
    auto& pool = found->second.pools[division.thread_of.at(process)];
    if (pool == nullptr) pool = engine::make_packet_pool(*found->second.program);
    options.pool = pool;
    options.depth_register = spec.depth_register();
    ++options.seed;
    auto node = std::make_unique<Node>(kernel.process(process), static_cast<std::uint32_t>(number),
                                       spec, found->second.program, options);
    node->engine_switch().run_native(found->second.native);
    nodes_[spec.name()] = std::move(node);
  }
  for (const v1::SimulatedHost& host : scenario.hosts()) {
    hosts_.emplace(host.name(), host);
    endpoints_[host.name()];
  }
  for (const v1::SimulatedSwitch& spec : scenario.switches()) {
    for (const v1::SimulatedPort& port : spec.ports()) {
      const bool is_host = port.peer_port() == 0;
      if (!(is_host ? endpoints_.contains(port.peer()) : nodes_.contains(port.peer()))) {
        throw ConfigError(spec.name() + " port " + std::to_string(port.port()) + ": no peer '" +
                          port.peer() + "'");
      }
      Peer peer;
      if (is_host) {
        peer.host = &endpoints_[port.peer()];
      } else {
        peer.node = nodes_[port.peer()].get();
        peer.port = port.peer_port();
      }
      if (port.has_capture()) peer.capture = std::make_unique<Capture>(port.capture());
      Node& node = *nodes_[spec.name()];
      node.connect(port.port(), std::move(peer));
      if (port.has_rx_capture()) node.capture_hosts_frames(port.port(), port.rx_capture());
    }
  }
}

VirtualNetwork::~VirtualNetwork() = default;

const HostSpec& VirtualNetwork::host(const std::string& name) const {
  const auto found = hosts_.find(name);
  if (found == hosts_.end()) throw ConfigError("scenario: no host '" + name + "'");
  return found->second;
}

void VirtualNetwork::attach(const std::string& host_name, HostEndpoint& endpoint) {
  endpoints_[host(host_name).name].push_back(&endpoint);
}

void VirtualNetwork::send(const HostSpec& host, std::span<const std::byte> frame) {
  nodes_.at(host.switch_name)->receive(host.switch_port, frame);
}

VirtualNetwork::Node& VirtualNetwork::node(const std::string& name) const {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) throw ConfigError("no switch '" + name + "'");
  return *found->second;
}

LogicalProcess& VirtualNetwork::process_of(const std::string& switch_name) {
  return node(switch_name).process();
}

engine::Switch& VirtualNetwork::at(const std::string& name) { return node(name).engine_switch(); }

trace::HopTrace* VirtualNetwork::trace_of(const std::string& name) { return node(name).trace(); }

void VirtualNetwork::finish_captures() {
  for (const auto& [name, node] : nodes_) node->finish_captures();
}

void VirtualNetwork::apply(const v1::PortChange& change) {
  engine::Switch& changing = at(change.switch_());
  engine::PortConfig config = changing.port_config(change.port()).value();
  if (change.has_rate_bps()) config.rate_bps = change.rate_bps();
  if (change.has_queue_packets()) config.queue_packets = change.queue_packets();
  if (change.has_queue_bytes()) config.queue_bytes = change.queue_bytes();
  if (change.has_delay_ns()) config.delay_ns = change.delay_ns();
  if (change.has_rx_delay_ns()) config.rx_delay_ns = change.rx_delay_ns();
  engine::change_wire(change.wire(), config.wire);
  engine::change_wire(change.rx_wire(), config.rx_wire);
  Node& changed = node(change.switch_());
  const engine::Status status = changing.set_port(change.port(), config, changed.process().now());
  if (!status.ok()) throw ConfigError(change.switch_() + ": " + status.message());
  changed.go_on();
}

std::vector<VirtualNetwork::PortView> VirtualNetwork::ports(bool recorded) {
  std::vector<PortView> result;
  for (const v1::SimulatedSwitch& spec : scenario_.switches()) {
    engine::Switch& node = nodes_.at(spec.name())->engine_switch();
    for (const v1::SimulatedPort& port : spec.ports()) {
      if (port.recorded() != recorded) continue;
      result.push_back(
          {spec.name(), port, node.stats(port.port(), true), accounts::read(node, port.port())});
    }
  }
  return result;
}

}  // namespace tiercast::ns3_runtime
