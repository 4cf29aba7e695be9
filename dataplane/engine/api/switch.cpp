#include "dataplane/engine/api/switch.h"

#include <algorithm>

#include "dataplane/engine/api/switch_state.h"
#include "dataplane/engine/queues/port.h"

namespace tiercast::engine {

std::shared_ptr<PacketPool> make_packet_pool(const Program& program) {
  return std::make_shared<PacketPool>(program.image().phv_cells);
}

Switch::Switch(std::shared_ptr<const Program> program, Options options, Output& output)
    : state_(std::make_unique<State>(std::move(program), std::move(options), output)) {}

Switch::~Switch() = default;

void Switch::run_native(std::shared_ptr<const NativeProgram> code) {
  state_->core.run_native(std::move(code));
}

const Program& Switch::program() const { return *state_->program; }

void Switch::set_program(std::shared_ptr<const Program> program) {
  state_->core.set_program(State::image_of(program));
  state_->program = std::move(program);
}

namespace {

Status no_port(std::uint32_t port, const std::vector<std::uint32_t>& valid) {
  std::string list;
  for (std::uint32_t p : valid) list += (list.empty() ? "" : ", ") + std::to_string(p);
  return {ErrorCode::kNotFound, "port " + std::to_string(port) +
                                    " does not exist; ports: " + (list.empty() ? "none" : list)};
}

}  // namespace

Status Switch::set_port(std::uint32_t port, const PortConfig& c, std::int64_t now_ns) {
  SwitchCore& s = state_->core;
  const auto wrong = [&](const std::string& what) {
    return Status{ErrorCode::kInvalidArgument, "port " + std::to_string(port) + ": " + what};
  };
  if (port >= kMaxPorts) return wrong("valid ports: 0 to " + std::to_string(kMaxPorts - 1));
  if (port == s.options.cpu_port || port == s.options.drop_port) {
    return wrong("reserved (CPU port " + std::to_string(s.options.cpu_port) + ", drop port " +
                 std::to_string(s.options.drop_port) + ")");
  }
  if (const std::string what = engine::wrong(c); !what.empty()) return wrong(what);
  s.advance(now_ns);
  s.ports->set(port, c, s.clock_ns);
  return {};
}

Status Switch::remove_port(std::uint32_t port) {
  SwitchCore& s = state_->core;
  if (port == s.options.cpu_port || !s.ports->has(port)) return no_port(port, ports());
  s.ports->remove(port);
  s.mirror_depth(port);
  return {};
}

Status Switch::set_port_up(std::uint32_t port, bool up) {
  SwitchCore& s = state_->core;
  if (!s.ports->has(port)) return no_port(port, ports());
  if (s.ports_down.test(port) == !up) return {};
  s.ports_down.set(port, !up);
  for (const auto& profile : s.program->profiles) profile->update_selections();
  return {};
}

std::vector<std::uint32_t> Switch::ports() const {
  std::vector<std::uint32_t> all = state_->core.ports->ports();
  std::erase(all, state_->core.options.cpu_port);
  return all;
}

Result<PortConfig> Switch::port_config(std::uint32_t port) const {
  if (port == state_->core.options.cpu_port || !state_->core.ports->has(port))
    return no_port(port, ports());
  return state_->core.ports->config(port);
}

PortStats Switch::stats(std::uint32_t port, bool reset_max) {
  if (!state_->core.ports->has(port)) return {};
  PortStats& stats = state_->core.ports->stats(port);
  PortStats copy = stats;
  copy.on_wire_packets = state_->core.ports->on_wire(port);
  if (reset_max) {
    stats.max_queue_packets = stats.queue_packets;
    stats.max_queue_bytes = stats.queue_bytes;
  }
  return copy;
}

std::vector<LabelCounts> Switch::label_counts(std::uint32_t port) const {
  return port < kMaxPorts ? state_->core.ports->labels(port).all() : std::vector<LabelCounts>();
}

SwitchStats Switch::switch_stats() const { return state_->core.all_stats(); }

void Switch::receive(std::uint32_t port, std::span<const std::byte> frame, std::int64_t now_ns) {
  state_->core.receive(port, frame, now_ns);
}

void Switch::receive(std::uint32_t port, const LentFrame& frame, std::int64_t now_ns) {
  state_->core.receive(port, frame, now_ns);
}

void Switch::set_trace(TraceSink* sink) { state_->core.tracer.set_sink(sink); }

std::int64_t Switch::next_event() const { return state_->core.next_event(); }

void Switch::advance(std::int64_t now_ns) { state_->core.advance(now_ns); }

void Switch::deliver_before(std::uint32_t port, std::int64_t until_ns) {
  SwitchCore& s = state_->core;
  if (s.ports->has(port)) s.ports->deliver_before(port, until_ns);
}

}  // namespace tiercast::engine
