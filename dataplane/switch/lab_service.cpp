#include "dataplane/switch/lab_service.h"

#include <fmt/format.h>

#include "dataplane/engine/queues/priority_message.h"
#include "dataplane/engine/queues/red_message.h"
#include "dataplane/engine/queues/wire_message.h"
#include "dataplane/switch/clock.h"
#include "dataplane/switch/p4runtime/translate/errors.h"

namespace tiercast::vswitch {
namespace {

constexpr std::uint64_t kMaxDelay = 60'000'000'000;  // ns, as on the command line

double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }

// Frame bytes plus the port's overhead for each frame.
std::uint64_t counted_bytes(std::uint64_t bytes, std::uint64_t packets, std::int32_t overhead) {
  return bytes + packets * static_cast<std::uint64_t>(static_cast<std::int64_t>(overhead));
}

// `counts` is that of a port, or of a session at a port.
template <class Message>
void fill(const accounts::Counts& counts, bool by_program, Message& out) {
  out.set_entered(counts.entered);
  out.set_queue_drops(counts.queue_drops);
  out.set_down_drops(counts.down_drops);
  out.set_link_losses(counts.link_losses);
  out.set_duplicated(counts.duplicated);
  out.set_left(counts.left);
  out.set_marked(counts.marked);
  out.set_policy_drops(counts.policy_drops);
  if (by_program) out.set_pruned(counts.pruned);
}

void fill(const accounts::PortAccounts& accounts, tiercast::v1::PortStats& out) {
  fill(accounts.total, accounts.by_program, out);
  for (const accounts::SessionCounts& session : accounts.sessions) {
    tiercast::v1::SessionCounts& counts = *out.add_sessions();
    counts.set_session(session.session);
    counts.set_layer(session.layer);
    counts.set_waiting(session.counts.waiting);
    fill(session.counts, accounts.by_program, counts);
  }
  if (!accounts.by_program) return;
  out.set_forwarded(accounts.ingress.forwarded);
  out.set_invalid(accounts.ingress.invalid);
  out.set_expired(accounts.ingress.expired);
  out.set_no_group(accounts.ingress.no_group);
  out.set_no_route(accounts.ingress.no_route);
  out.set_refused(accounts.ingress.refused);
  out.set_policed(accounts.ingress.policed);
}

void fill(const PortReport& report, tiercast::v1::PortStats& out) {
  const engine::PortStats& stats = report.stats;
  out.set_port(report.number);
  out.set_name(report.interface);
  out.set_rx_packets(stats.rx_packets);
  out.set_rx_bytes(counted_bytes(stats.rx_bytes, stats.rx_packets, report.overhead_bytes));
  out.set_tx_packets(stats.tx_packets);
  out.set_tx_bytes(counted_bytes(stats.tx_bytes, stats.tx_packets, report.overhead_bytes));
  out.set_queue_packets(stats.queue_packets);
  out.set_queue_bytes(stats.queue_bytes);
  out.set_max_queue_packets(stats.max_queue_packets);
  out.set_max_queue_bytes(stats.max_queue_bytes);
  out.set_on_wire(stats.on_wire_packets);
  out.set_rx_link_losses(stats.rx_lost_packets);
  out.set_rx_duplicated(stats.rx_duplicated_packets);
  out.set_kernel_drops(report.kernel_drops);
  out.set_send_errors(report.send_errors);
  out.set_late_p50_us(microseconds(report.late_p50_ns));
  out.set_late_p99_us(microseconds(report.late_p99_ns));
  out.set_late_max_us(microseconds(report.late_max_ns));
  if (report.red) engine::write_red(*report.red, *out.mutable_red());
  if (report.priority) {
    out.mutable_priority_queues()->set_queues(2);
    out.mutable_priority_queues()->set_low_share(report.priority->low_share);
  }
  fill(report.accounts, out);
}

void fill(const trace::Hop& hop, tiercast::v1::Hop& out) {
  out.set_port(hop.port);
  out.set_session(hop.packet.session);
  out.set_layer(hop.packet.layer);
  out.set_sequence(hop.packet.sequence);
  out.set_ip_id(hop.packet.ip_id);
  out.set_bytes(hop.packet.ip_bytes);
  out.set_flow(hop.packet.flow);
  out.set_arrival_ns(hop.arrival_ns);
  out.set_found_packets(hop.found_packets);
  out.set_found_bytes(hop.found_bytes);
  if (hop.left_packets) out.set_left_packets(*hop.left_packets);
  if (hop.wait_ns) out.set_wait_ns(static_cast<std::uint64_t>(*hop.wait_ns));
  if (hop.transit_ns) out.set_transit_ns(static_cast<std::uint64_t>(*hop.transit_ns));
  out.set_fate(hop.fate);
  out.set_by(hop.by);
  for (const std::string& line : hop.lines) out.add_lines(line);
  for (const std::optional<double>& value : hop.registers) {
    tiercast::v1::RegisterValue& cell = *out.add_registers();
    if (value) cell.set_value(*value);
  }
  if (hop.red_average) out.set_red_average(*hop.red_average);
}

}  // namespace

grpc::Status LabService::SetLink(grpc::ServerContext*, const tiercast::v1::SetLinkRequest* request,
                                 tiercast::v1::SetLinkResponse*) {
  for (const auto& [name, value] : {std::pair("delay_ns", request->delay_ns()),
                                    std::pair("rx_delay_ns", request->rx_delay_ns())})
    if (value > kMaxDelay)
      return {grpc::INVALID_ARGUMENT,
              fmt::format("port {}: {} {} is above {}", request->port(), name, value, kMaxDelay)};
  LinkChange change;
  if (request->has_rate_bps()) change.rate_bps = static_cast<double>(request->rate_bps());
  if (request->has_queue_packets()) change.queue_packets = request->queue_packets();
  if (request->has_queue_bytes()) change.queue_bytes = request->queue_bytes();
  if (request->has_delay_ns()) change.delay_ns = static_cast<std::int64_t>(request->delay_ns());
  if (request->has_rx_delay_ns())
    change.rx_delay_ns = static_cast<std::int64_t>(request->rx_delay_ns());
  if (request->has_red())
    change.red = request->red().max_th() == 0 ? std::nullopt
                                              : std::optional(engine::read_red(request->red()));
  if (request->has_priority_queues()) {
    const tiercast::v1::PriorityQueues& asked = request->priority_queues();
    if (asked.queues() != 1 && asked.queues() != 2)
      return {grpc::INVALID_ARGUMENT, fmt::format("port {}: {} queues by priority; valid: 1, 2",
                                                  request->port(), asked.queues())};
    change.priority = engine::read_priority_queues(asked);
  }
  change.wires = [request](engine::PortConfig& link) {
    engine::change_wire(request->wire(), link.wire);
    engine::change_wire(request->rx_wire(), link.rx_wire);
  };
  engine::Status status;
  data_plane_.call([&] { status = data_plane_.change_link(request->port(), change); });
  return to_grpc(status);
}

grpc::Status LabService::GetPorts(grpc::ServerContext*, const tiercast::v1::GetPortsRequest*,
                                  tiercast::v1::GetPortsResponse* response) {
  std::vector<PortReport> reports;
  Health health;
  data_plane_.call([&] {
    response->set_time_ns(monotonic_ns());
    reports = data_plane_.report();
    health = data_plane_.take_health();
  });
  response->set_longest_pause_us(microseconds(health.longest_pause_ns));
  response->set_packet_ins(health.packet_ins);
  response->set_packet_ins_dropped(health.packet_ins_dropped);
  for (const PortReport& report : reports) fill(report, *response->add_ports());
  return grpc::Status::OK;
}

grpc::Status LabService::SetTrace(grpc::ServerContext*,
                                  const tiercast::v1::SetTraceRequest* request,
                                  tiercast::v1::SetTraceResponse*) {
  std::map<std::uint32_t, trace::TracedPort> traced;
  for (const tiercast::v1::PortTrace& port : request->ports()) {
    if (!(port.share() > 0 && port.share() <= 1))
      return {grpc::INVALID_ARGUMENT,
              fmt::format("port {}: share {}; valid: above 0, to 1", port.port(), port.share())};
    const trace::TracedPort one{port.share(), {port.registers().begin(), port.registers().end()}};
    if (!traced.emplace(port.port(), one).second)
      return {grpc::INVALID_ARGUMENT, fmt::format("port {} is given twice", port.port())};
  }
  engine::Status status;
  data_plane_.call([&] { status = data_plane_.trace_ports(std::move(traced)); });
  return to_grpc(status);
}

grpc::Status LabService::TakeTrace(grpc::ServerContext*, const tiercast::v1::TakeTraceRequest*,
                                   tiercast::v1::TakeTraceResponse* response) {
  std::vector<trace::Hop> hops;
  data_plane_.call([&] {
    trace::HopTrace* const trace = data_plane_.hops();
    if (trace == nullptr) return;
    hops = trace->take();
    response->set_skipped(trace->skipped());
  });
  for (const trace::Hop& hop : hops) fill(hop, *response->add_hops());
  return grpc::Status::OK;
}

}  // namespace tiercast::vswitch
