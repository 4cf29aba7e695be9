#include "tests/p4src/bench.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "dataplane/accounts/accounts.h"

namespace tiercast::p4test {
namespace {

using engine::ActionCall;
using engine::Bytes;
using engine::FieldMatch;
using engine::TableEntry;

Bytes number(std::uint64_t value, unsigned bytes) {
  Bytes out;
  while (bytes-- > 0) out.push_back(static_cast<char>(value >> (8 * bytes)));
  return out;
}

std::uint64_t value_of(const Bytes& bytes) {
  std::uint64_t value = 0;
  for (char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

std::shared_ptr<const engine::Program> program() {
  static const auto loaded = [] {
    std::ifstream file(TIERCAST_JSON);
    if (!file) throw std::runtime_error("cannot read " TIERCAST_JSON);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return engine::Program::load(text, TIERCAST_JSON);
  }();
  return loaded;
}

void must(const engine::Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

TableEntry entry(std::vector<FieldMatch> match, std::string action, std::vector<Bytes> arguments) {
  TableEntry out;
  out.match = std::move(match);
  out.action = {std::move(action), std::move(arguments)};
  return out;
}

// Inserts the entry, or modifies it if it exists.
void put(engine::Switch& to, std::string_view table, const TableEntry& entry) {
  const auto status = to.insert_entry(table, entry);
  must(status.code() == engine::ErrorCode::kAlreadyExists ? to.modify_entry(table, entry) : status);
}

// target_us, alpha, beta, idle_fall and idle_us of an action.
std::vector<Bytes> pi_values(const PiParameters& p) {
  const auto probability = [](double value) {
    return number(static_cast<std::uint64_t>(std::lround(std::ldexp(value, 32))), 4);
  };
  return {number(static_cast<std::uint64_t>(std::lround(p.target * 1e6)), 4),
          probability(p.alpha / 1e6), probability(p.beta / 1e6), probability(p.alpha * p.target),
          number(0, 4)};
}

std::vector<FieldMatch> top_group_key(std::uint32_t port, std::uint32_t session) {
  return {FieldMatch::exact(number(port, 2)), FieldMatch::exact(number(session, 2))};
}

}  // namespace

Bench::Bench(std::uint64_t seed)
    : switch_(std::make_unique<engine::Switch>(
          program(), engine::Switch::Options{.seed = seed, .label = accounts::by_group()}, *this)) {
  for (std::uint32_t port = 1; port <= 4; ++port) limit(port, 0, 0);
  must(switch_->insert_clone_session(1, {{{kCpuPort, 0}}, 0}));  // copies that become summaries
}

void Bench::reload() { switch_->set_program(program()); }

void Bench::host(std::string_view to, std::uint32_t port, std::uint64_t mac) {
  put(*switch_, "ipv4_host",
      entry({FieldMatch::exact(number(address(to), 4))}, "forward",
            {number(port, 2), number(mac, 6)}));
}

void Bench::prefix(std::string_view to, unsigned length, std::uint32_t port, std::uint64_t mac) {
  put(*switch_, "ipv4_lpm",
      entry({FieldMatch::lpm(number(address(to), 4), length)}, "forward",
            {number(port, 2), number(mac, 6)}));
}

void Bench::drop_prefix(std::string_view to, unsigned length) {
  put(*switch_, "ipv4_lpm", entry({FieldMatch::lpm(number(address(to), 4), length)}, "drop", {}));
}

void Bench::spread(std::string_view to, unsigned length, std::uint32_t first, std::uint32_t count,
                   std::uint32_t multiplier) {
  put(*switch_, "ipv4_spread",
      entry({FieldMatch::lpm(number(address(to), 4), length)}, "spread",
            {number(first, 2), number(count, 2), number(multiplier, 4)}));
}

void Bench::next_hop(std::uint32_t place, std::uint32_t port, std::uint64_t mac) {
  put(*switch_, "next_hop",
      entry({FieldMatch::exact(number(place, 2))}, "take", {number(port, 2), number(mac, 6)}));
}

void Bench::no_next_hop(std::uint32_t place) {
  must(switch_->delete_entry("next_hop", entry({FieldMatch::exact(number(place, 2))}, "", {})));
}

void Bench::subscribe(std::uint32_t group_address, std::uint32_t mgid,
                      std::vector<std::uint32_t> ports) {
  std::vector<engine::Replica> replicas;
  for (std::uint32_t port : ports) replicas.push_back({port, 0});
  must(switch_->insert_multicast_group(mgid, replicas));
  put(*switch_, "ipv4_multicast",
      entry({FieldMatch::exact(number(group_address, 4))}, "replicate", {number(mgid, 2)}));
}

void Bench::subscribe_from(std::uint32_t group_address, std::uint32_t mgid,
                           std::vector<std::uint32_t> ports, std::string_view source,
                           std::uint32_t port, std::uint32_t former_port) {
  subscribe(group_address, mgid, std::move(ports));
  put(*switch_, "ipv4_multicast",
      entry(
          {FieldMatch::exact(number(group_address, 4))}, "replicate_from",
          {number(mgid, 2), number(address(source), 4), number(port, 2), number(former_port, 2)}));
}

void Bench::guard(std::uint32_t port, std::string_view host) {
  put(*switch_, "source_guard",
      entry({FieldMatch::exact(number(port, 2))}, "only_from", {number(address(host), 4)}));
}

void Bench::limit_igmp(std::uint32_t port, std::uint32_t rate, std::uint32_t burst) {
  const auto per_second = static_cast<double>(rate);
  must(switch_->write_meter("igmp_meter", port,
                            engine::MeterConfig{per_second, burst, per_second, burst}));
}

void Bench::top_group(std::uint32_t port, std::uint32_t session, std::uint32_t rank) {
  put(*switch_, "top_group",
      entry(top_group_key(port, session), "set_top_group", {number(rank, 1)}));
}

void Bench::no_top_group(std::uint32_t port, std::uint32_t session) {
  must(switch_->delete_entry("top_group", entry(top_group_key(port, session), "", {})));
}

void Bench::marking(std::uint32_t port, std::uint32_t threshold, std::uint32_t idle_us) {
  put(*switch_, "port_marking",
      entry({FieldMatch::exact(number(port, 2))}, "priority_marking",
            {number(threshold, 4), number(idle_us, 4)}));
}

void Bench::no_marking(std::uint32_t port) {
  put(*switch_, "port_marking", entry({FieldMatch::exact(number(port, 2))}, "no_marking", {}));
}

std::uint32_t RedParameters::idle_rate() const {
  const double packets_per_us = link_bps / (8 * mean_packet) / 1e6;
  return static_cast<std::uint32_t>(std::lround(packets_per_us * (1 << 19)));
}

std::uint32_t RedParameters::transmission_us() const {
  return static_cast<std::uint32_t>(std::lround(8e6 * typical_packet / link_bps));
}

void Bench::red(std::uint32_t port, const RedParameters& r) {
  const auto fixed = [](double value, int bits) {
    return number(static_cast<std::uint64_t>(std::lround(std::ldexp(value, bits))), 4);
  };
  const auto flag = [](bool value) { return number(value, 1); };
  const double gentle_slope = r.gentle ? (1 - r.max_p) / r.max_th : 0;
  put(*switch_, "port_marking",
      entry({FieldMatch::exact(number(port, 2))}, "red",
            {fixed(r.min_th, 8), fixed(r.max_th, 8), fixed(r.max_p / (r.max_th - r.min_th), 24),
             fixed(r.max_p, 24), fixed(gentle_slope, 24), flag(r.ecn), flag(r.mark_above_max),
             flag(r.wait), number(r.limit, 3), number(0, 4), number(r.transmission_us(), 4),
             number(r.idle_rate(), 4), number((1u << 31) / r.idle_rate(), 4)}));
}

void Bench::codel(std::uint32_t port, const CodelParameters& c) {
  put(*switch_, "port_marking",
      entry({FieldMatch::exact(number(port, 2))}, "codel",
            {number(c.target_us, 4), number(c.interval_us, 4), number(c.ecn, 1)}));
}

void Bench::pie(std::uint32_t port, const PiParameters& p) {
  auto values = pi_values(p);
  values.push_back(number(static_cast<std::uint64_t>(std::lround(p.burst * 1e6)), 4));
  values.push_back(
      number(static_cast<std::uint64_t>(std::lround(std::ldexp(p.mark_below, 32))), 4));
  values.push_back(number(p.spread, 1));
  put(*switch_, "port_marking", entry({FieldMatch::exact(number(port, 2))}, "pie", values));
}

void Bench::pi2(std::uint32_t port, const PiParameters& p) {
  auto values = pi_values(p);
  values.push_back(number(p.ecn, 1));
  put(*switch_, "port_marking", entry({FieldMatch::exact(number(port, 2))}, "pi2", values));
}

void Bench::dualpi2(std::uint32_t port, const DualPi2Parameters& p) {
  constexpr std::uint64_t kWhole = std::uint64_t{1} << 32;
  auto values = pi_values(p.pi);
  const auto coupling = static_cast<std::uint64_t>(std::lround(std::ldexp(p.coupling, 4)));
  values.push_back(number(coupling, 1));
  values.push_back(number(std::min((kWhole * 16 + coupling - 1) / coupling, kWhole - 1), 4));
  values.push_back(number(p.ramp_us, 4));
  values.push_back(number(p.ramp_us + p.range_us, 4));
  values.push_back(number(p.range_us == 0 ? 0 : (kWhole - 1) / p.range_us, 4));
  values.push_back(number(p.ramp_depth, 3));
  put(*switch_, "port_marking", entry({FieldMatch::exact(number(port, 2))}, "dualpi2", values));
}

void Bench::queue_classes() {
  for (const std::uint64_t ecn : {1, 3}) {
    put(*switch_, "queue_class",
        entry({FieldMatch::exact(number(ecn, 1))}, "set_priority", {number(1, 1)}));
  }
}

void Bench::threshold_marking(std::uint32_t port, std::uint32_t packets) {
  put(*switch_, "port_marking",
      entry({FieldMatch::exact(number(port, 2))}, "threshold_marking", {number(packets, 3)}));
}

void Bench::drop_tail(std::uint32_t port, std::uint32_t packets) {
  put(*switch_, "port_marking",
      entry({FieldMatch::exact(number(port, 2))}, "drop_tail", {number(packets, 3)}));
}

void Bench::aggregate(std::uint32_t session, const Aggregator& a) {
  put(*switch_, "aggregator",
      entry({FieldMatch::exact(number(session, 2))}, "aggregate",
            {number(a.slot, 1), number(a.id, 4), number(a.address, 4), number(a.parent, 4),
             number(a.mac, 6), number(a.upstream_port, 2)}));
}

void Bench::no_aggregate(std::uint32_t session) {
  must(switch_->delete_entry("aggregator", entry({FieldMatch::exact(number(session, 2))}, "", {})));
}

void Bench::group_columns(std::uint32_t group_address, std::uint32_t first) {
  put(*switch_, "group_columns",
      entry({FieldMatch::exact(number(group_address, 4))}, "set_columns", {number(first, 4)}));
}

void Bench::limit(std::uint32_t port, double rate_bps, std::uint32_t queue_packets) {
  engine::PortConfig config;
  config.rate_bps = rate_bps;
  config.queue_packets = queue_packets;
  config.overhead_bytes = -static_cast<int>(kEthernetBytes);
  must(switch_->set_port(port, config, now_ns_));
}

void Bench::two_queues(std::uint32_t port, double rate_bps, double low_share) {
  engine::PortConfig config;
  config.rate_bps = rate_bps;
  config.overhead_bytes = -static_cast<int>(kEthernetBytes);
  config.priority = engine::PriorityConfig{low_share};
  must(switch_->set_port(port, config, now_ns_));
}

void Bench::receive(std::uint32_t port, const Frame& frame) {
  switch_->receive(port, frame, now_ns_);
  switch_->advance(now_ns_);
}

void Bench::advance_to(std::int64_t time_ns) {
  now_ns_ = std::max(now_ns_, time_ns);
  switch_->advance(now_ns_);
}

void Bench::finish() {
  while (switch_->next_event() != engine::Switch::kNever) advance_to(switch_->next_event());
}

std::vector<Frame> Bench::sent_on(std::uint32_t port) const {
  std::vector<Frame> frames;
  for (const Sent& one : sent_) {
    if (one.port == port) frames.push_back(one.frame);
  }
  return frames;
}

std::vector<std::uint32_t> Bench::ports_used() const {
  std::vector<std::uint32_t> ports;
  for (const Sent& one : sent_) ports.push_back(one.port);
  std::sort(ports.begin(), ports.end());
  return ports;
}

void Bench::clear() {
  sent_.clear();
  punted_.clear();
}

engine::CounterValue Bench::counter(std::string_view name, std::uint32_t index) const {
  const auto value = switch_->read_counter(name, index);
  EXPECT_TRUE(value.ok()) << value.status().message();
  return value.ok() ? *value : engine::CounterValue{};
}

std::uint64_t Bench::ingress(std::uint32_t port, IngressFate fate) const {
  constexpr std::uint32_t kColumns = 512;
  return counter("ingress_fates", static_cast<std::uint32_t>(fate) * kColumns + port).packets;
}

std::uint64_t Bench::entered_port(std::uint32_t port) const {
  return counter("entered", port).packets;
}

std::uint64_t Bench::entered_group(std::uint32_t mgid) const {
  return counter("entered", 512 + mgid).packets;
}

EgressFates Bench::egress(std::uint32_t column) const {
  constexpr std::uint32_t kColumns = 33280;
  const auto packets = [&](std::uint32_t fate) {
    return counter("egress_fates", fate * kColumns + column).packets;
  };
  return {packets(0) + packets(1), packets(1), packets(2), packets(3)};
}

std::uint32_t Bench::avg_queue(std::uint32_t port) const {
  return static_cast<std::uint32_t>(cell("avg_queue", port));
}

std::uint64_t Bench::cell(std::string_view name, std::uint64_t index) const {
  const auto value = switch_->read_register(name, index);
  EXPECT_TRUE(value.ok()) << value.status().message();
  return value.ok() ? value_of(*value) : ~0ull;
}

void Bench::set_cell(std::string_view name, std::uint64_t index, std::uint32_t value) {
  must(switch_->write_register(name, index, number(value, 4)));
}

void Bench::transmit(std::uint32_t port, std::span<const std::byte> frame, std::int64_t due_ns) {
  sent_.push_back({port, {frame.begin(), frame.end()}, due_ns});
}

void Bench::packet_in(std::span<const std::byte> frame) {
  punted_.push_back({frame.begin(), frame.end()});
}

}  // namespace tiercast::p4test
