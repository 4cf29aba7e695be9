#include "dataplane/engine/api/switch.h"

#include <algorithm>
#include <cmath>

#include "dataplane/engine/arch/v1model/switch_state.h"

namespace tiercast::engine {

std::shared_ptr<PacketPool> make_packet_pool(const Program& program) {
  return std::make_shared<PacketPool>(program.image().phv_cells);
}

Switch::Switch(std::shared_ptr<const Program> program, Options options, Output& output)
    : state_(std::make_unique<State>(std::move(program), options, output)) {}

Switch::~Switch() = default;

const Program& Switch::program() const { return *state_->loaded->program; }

void Switch::set_program(std::shared_ptr<const Program> program) {
  State& s = *state_;
  auto loaded = std::make_unique<Loaded>(std::move(program), s.options, s.output, s.ports_down);
  auto ports = std::make_unique<TrafficManager>(kMaxPorts, loaded->pool, s);
  for (std::uint32_t port : s.ports->ports()) {
    ports->set(port, s.ports->config(port), s.clock_ns);
    ports->stats(port) = s.ports->stats(port);
    ports->stats(port).queue_packets = 0;
    ports->stats(port).queue_bytes = 0;
  }
  s.again = {};
  s.stats = switch_stats();
  s.ports = std::move(ports);
  s.loaded = std::move(loaded);
  s.find_timers();
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
  State& s = *state_;
  const auto wrong = [&](const std::string& what) {
    return Status{ErrorCode::kInvalidArgument, "port " + std::to_string(port) + ": " + what};
  };
  if (port >= kMaxPorts) return wrong("valid ports: 0 to " + std::to_string(kMaxPorts - 1));
  if (port == s.options.cpu_port || port == s.options.drop_port) {
    return wrong("reserved (CPU port " + std::to_string(s.options.cpu_port) + ", drop port " +
                 std::to_string(s.options.drop_port) + ")");
  }
  constexpr double kMaxRate = 1e15;
  constexpr std::int64_t kMaxDelay = 1'000'000'000'000'000;
  if (!std::isfinite(c.rate_bps) || c.rate_bps < 0 || c.rate_bps > kMaxRate ||
      (c.rate_bps > 0 && c.rate_bps < 1)) {
    return wrong("rate " + std::to_string(c.rate_bps) +
                 " bit/s, valid: 0 (unlimited) or 1 to 1e15");
  }
  for (const std::int64_t delay : {c.delay_ns, c.rx_delay_ns}) {
    if (delay < 0 || delay > kMaxDelay) {
      return wrong("delay " + std::to_string(delay) + " ns, valid: 0 to 1e15");
    }
  }
  s.advance(now_ns);
  s.ports->set(port, c, s.clock_ns);
  return {};
}

Status Switch::remove_port(std::uint32_t port) {
  State& s = *state_;
  if (port == s.options.cpu_port || !s.ports->has(port)) return no_port(port, ports());
  s.ports->remove(port);
  return {};
}

Status Switch::set_port_up(std::uint32_t port, bool up) {
  State& s = *state_;
  if (!s.ports->has(port)) return no_port(port, ports());
  if (s.ports_down.test(port) == !up) return {};
  s.ports_down.set(port, !up);
  for (const auto& profile : s.loaded->profiles) profile->update_selections();
  return {};
}

std::vector<std::uint32_t> Switch::ports() const {
  std::vector<std::uint32_t> all = state_->ports->ports();
  std::erase(all, state_->options.cpu_port);
  return all;
}

Result<PortConfig> Switch::port_config(std::uint32_t port) const {
  if (port == state_->options.cpu_port || !state_->ports->has(port)) return no_port(port, ports());
  return state_->ports->config(port);
}

PortStats Switch::stats(std::uint32_t port, bool reset_max) {
  if (!state_->ports->has(port)) return {};
  PortStats& stats = state_->ports->stats(port);
  const PortStats copy = stats;
  if (reset_max) {
    stats.max_queue_packets = stats.queue_packets;
    stats.max_queue_bytes = stats.queue_bytes;
  }
  return copy;
}

std::vector<LabelCounts> Switch::label_counts(std::uint32_t port) const {
  return port < kMaxPorts ? state_->ports->labels(port).all() : std::vector<LabelCounts>();
}

SwitchStats Switch::switch_stats() const {
  SwitchStats stats = state_->stats;
  for (const DigestGatherer& digest : state_->loaded->digests) {
    stats.dropped_digests += digest.dropped();
  }
  return stats;
}

void Switch::receive(std::uint32_t port, std::span<const std::byte> frame, std::int64_t now_ns) {
  state_->receive(port, frame, now_ns);
}

void Switch::set_trace(TraceSink* sink) {
  state_->tracer.set_sink(sink);
}

std::int64_t Switch::next_event() const {
  return std::min(state_->ports->next_event(), state_->next_timer());
}

void Switch::advance(std::int64_t now_ns) { state_->advance(now_ns); }

}  // namespace tiercast::engine
