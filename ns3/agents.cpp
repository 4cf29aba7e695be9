// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/agents.h"

#include <ns3/simulator.h>

#include <algorithm>

#include "protocols/wire/wire.h"

namespace tiercast::ns3_runtime {

Agent::Agent(VirtualNetwork& network, Records& records, const SessionSpec& spec,
             const std::string& host)
    : network_(network), records_(records), spec_(spec), host_(network.host(host)),
      name_(host + spec.suffix) {
  network.attach(host, *this);
}

Agent::~Agent() {
  call_.Cancel();
  next_report_.Cancel();
}

Time Agent::now() { return Time::nanoseconds(ns3::Simulator::Now().GetNanoSeconds()); }

SessionConfig Agent::config(std::uint64_t seed) const {
  const Scheme& scheme = find_scheme(spec_.scheme);
  SessionConfig result;
  result.session = spec_.session;
  result.layers = spec_.layers;
  result.packet_size = spec_.packet_size;
  result.self_id = host_.number;
  result.seed = seed;
  result.parameters = Parameters(scheme.parameters);
  for (const std::string& assignment : spec_.assignments) result.parameters.set(assignment);
  return result;
}

void Agent::call_at(Time due) {
  call_.Cancel();
  if (due.is_never()) return;
  const std::int64_t wait = std::max<std::int64_t>(0, (due - now()).ns());
  call_ = ns3::Simulator::Schedule(ns3::NanoSeconds(wait), &Agent::act, this);
}

void Agent::begin_reports() {
  next_report_.Cancel();
  if (records_.silent()) return;
  next_report_ = ns3::Simulator::Schedule(ns3::NanoSeconds(records_.interval(kReportNs)),
                                          &Agent::report_and_go_on, this);
}

void Agent::report_and_go_on() {
  if (!running_) return;
  report(++reports_ * records_.interval(kReportNs) % kSecondNs == 0);
  begin_reports();
}

void Agent::finish() {
  if (running_) report(true);
}

void Agent::report_now() {
  if (running_) report(false);
}

void Agent::trace(std::string_view kind, std::span<const TraceField> fields) {
  records_.add(now().ns(), name_, kind, fields);
}

bool Agent::parse(std::span<const std::byte> frame, wire::UdpPacket& packet) {
  return wire::parse_udp_frame(frame, packet) == wire::FrameError::kOk;
}

void Agent::send_udp(const wire::UdpFlow& flow, std::span<const std::byte> payload) {
  frame_.resize(wire::kFrameHeaderBytes + payload.size());
  std::copy(payload.begin(), payload.end(), frame_.begin() + wire::kFrameHeaderBytes);
  wire::write_udp_headers(flow, next_ip_id_++, frame_);
  network_.send(host_, frame_);
}

// ------------------------------------------------------------------------------------- sender

SenderAgent::SenderAgent(VirtualNetwork& network, Records& records, const SessionSpec& spec)
    : Agent(network, records, spec, spec.sender),
      scheme_(find_scheme(spec.scheme)),
      core_(scheme_.make_sender(config((spec.seed << 16) + host_.number))),
      pacer_(spec.layers),
      message_(spec.packet_size - kIpUdpHeaderBytes) {
  for (Rank rank = 0; rank < spec.layers; ++rank) {
    wire::UdpFlow& flow = layers_[rank].flow;
    flow.source_mac = host_.mac;
    flow.source = host_.address;
    flow.source_port = wire::kDataPort;
    flow.destination = wire::group_address(spec.session, rank);
    flow.destination_mac = wire::multicast_mac(flow.destination);
    flow.destination_port = wire::kDataPort;
    flow.ecn = core_->ecn_capable() ? wire::Ecn::kEct0 : wire::Ecn::kNotEct;
  }
}

void SenderAgent::start() {
  running_ = true;
  core_->start(now(), *this);
  core_->membership(now(), top_rank_, *this);
  begin_reports();
  schedule();
}

void SenderAgent::stop() {
  if (!running_) return;
  report(true);
  core_->stop(now(), *this);
  running_ = false;
  call_at(Time::never());
}

void SenderAgent::membership(int top_rank) {
  top_rank_ = std::min(top_rank, static_cast<int>(spec_.layers) - 1);
  if (!running_) return;
  core_->membership(now(), top_rank_, *this);
  send_released();
  schedule();
}

void SenderAgent::receive(std::span<const std::byte> frame) {
  wire::UdpPacket packet;
  if (!parse(frame, packet) || packet.destination != host_.address ||
      packet.destination_port != wire::kFeedbackPort) {
    return;  // another program's
  }
  wire::CommonHeader header;
  if (wire::parse_common(packet.payload, header) != wire::Error::kOk) {
    ++feedback_.malformed;
    return;
  }
  if (header.session != spec_.session || static_cast<std::uint8_t>(header.scheme) != scheme_.id) {
    ++feedback_.foreign;
    return;
  }
  if (!running_) return;
  ++feedback_.delivered;
  core_->receive(
      now(), {packet.payload, packet.ip_length, packet.ecn == wire::Ecn::kCe, packet.source},
      *this);
  send_released();
  schedule();
}

void SenderAgent::act() {
  if (!running_) return;
  if (core_->next_timer() <= now()) core_->timer(now(), *this);
  while (const auto departure = pacer_.pop(now())) send_data(static_cast<Rank>(departure->layer));
  send_released();
  schedule();
}

void SenderAgent::schedule() {
  call_at(std::min(core_->next_timer(), pacer_.next_departure()));
}

void SenderAgent::send_released() {
  for (Rank rank = 0; rank < spec_.layers; ++rank) {
    for (; layers_[rank].released > 0; --layers_[rank].released) send_data(rank);
  }
}

void SenderAgent::send_data(Rank rank) {
  if (core_->write_data(now(), rank, message_) == 0) return;
  ++layers_[rank].counters.generated;
  ++layers_[rank].counters.sent;
  send_udp(layers_[rank].flow, message_);
}

void SenderAgent::send(Destination to, std::span<const std::byte> message) {
  wire::UdpFlow flow = layers_[0].flow;
  flow.ecn = wire::Ecn::kNotEct;
  if (to.kind == Destination::Kind::kGroup && to.rank < spec_.layers) {
    flow.destination = layers_[to.rank].flow.destination;
    flow.destination_mac = layers_[to.rank].flow.destination_mac;
  } else if (to.kind == Destination::Kind::kReceiver) {
    flow.destination = to.address;
    flow.destination_mac = host_.gateway_mac;
  } else {
    return;
  }
  send_udp(flow, message);
}

void SenderAgent::set_rate(Rank layer, Rate rate) {
  if (layer >= spec_.layers) return;
  layers_[layer].rate = rate;
  pacer_.set_rate(now(), layer, rate, spec_.packet_size);
}

void SenderAgent::release(Rank layer, std::uint32_t packets) {
  if (layer < spec_.layers) layers_[layer].released += packets;
}

void SenderAgent::report(bool second) {
  for (Rank rank = 0; rank < spec_.layers; ++rank) {
    const Layer& layer = layers_[rank];
    records_.add(now().ns(), name_, "layer",
                 layer_row(rank, layer.rate, spec_.packet_size, layer.counters));
  }
  if (second) {
    records_.add(now().ns(), name_, "feedback", feedback_row(feedback_, core_->invalid(), 0));
  }
}

// ----------------------------------------------------------------------------------- receiver

ReceiverAgent::ReceiverAgent(VirtualNetwork& network, Records& records, const SessionSpec& spec,
                             const std::string& host, Membership membership)
    : Agent(network, records, spec, host),
      membership_(std::move(membership)),
      core_(make_core()) {
  joined_at_ns_.fill(kNotWaiting);
  sender_address_ = network.host(spec.sender).address;
  feedback_.source_mac = host_.mac;
  feedback_.destination_mac = host_.gateway_mac;
  feedback_.source = host_.address;
  feedback_.destination = sender_address_;
  feedback_.source_port = wire::kFeedbackPort;
  feedback_.destination_port = wire::kFeedbackPort;
}

// The seed of each start is another's, and the first is that of the same agent in real time.
std::unique_ptr<ReceiverCore> ReceiverAgent::make_core() {
  const std::uint64_t seed = (spec_.seed << 16) + host_.number + (starts_++ << 48);
  return find_scheme(spec_.scheme).make_receiver(config(seed));
}

void ReceiverAgent::start() {
  if (running_) return;
  if (core_ == nullptr) core_ = make_core();
  running_ = true;
  core_->start(now(), *this);
  begin_reports();
  call_at(core_->next_timer());
}

void ReceiverAgent::stop() {
  if (!running_) return;
  report(true);
  core_->stop(now(), *this);
  running_ = false;
  call_at(Time::never());
  before_ = counters();
  core_.reset();
}

ReceiverCounters ReceiverAgent::counters() const {
  ReceiverCounters sum = core_->counters();
  sum.bytes += before_.bytes;
  sum.packets += before_.packets;
  sum.lost += before_.lost;
  sum.marked += before_.marked;
  sum.invalid += before_.invalid;
  return sum;
}

void ReceiverAgent::receive(std::span<const std::byte> frame) {
  wire::UdpPacket packet;
  if (!running_ || !parse(frame, packet) || packet.destination_port != wire::kDataPort) return;
  const std::uint32_t rank = packet.destination - wire::group_address(spec_.session, 0);
  const bool unicast = packet.destination == host_.address;
  // A kernel hands over what its host has joined, and a host can be in several sessions.
  if (!unicast && (rank >= spec_.layers || !joined_[rank])) return;
  if (packet.source != sender_address_) {
    ++socket_.foreign;
    return;
  }
  if (!unicast && joined_at_ns_[rank] != kNotWaiting) {
    records_.add(now().ns(), name_, "join",
                 {{"rank", static_cast<double>(rank)},
                  {"latency_us", static_cast<double>(now().ns() - joined_at_ns_[rank]) / 1000}});
    joined_at_ns_[rank] = kNotWaiting;
  }
  core_->receive(
      now(), {packet.payload, packet.ip_length, packet.ecn == wire::Ecn::kCe, packet.source},
      *this);
  call_at(core_->next_timer());
}

void ReceiverAgent::act() {
  if (!running_) return;
  if (core_->next_timer() <= now()) core_->timer(now(), *this);
  call_at(core_->next_timer());
}

void ReceiverAgent::send(Destination to, std::span<const std::byte> message) {
  if (to.kind == Destination::Kind::kSender) send_udp(feedback_, message);
}

void ReceiverAgent::join(Rank rank) {
  if (rank >= spec_.layers) return;
  joined_[rank] = true;
  joined_at_ns_[rank] = now().ns();
  membership_(host_, spec_, rank, true);
}

void ReceiverAgent::leave(Rank rank) {
  if (rank >= spec_.layers) return;
  joined_[rank] = false;
  joined_at_ns_[rank] = kNotWaiting;
  membership_(host_, spec_, rank, false);
}

void ReceiverAgent::report(bool second) {
  const ReceiverCounters counters = this->counters();
  records_.add(now().ns(), name_, "received", received_row(counters));
  if (second) records_.add(now().ns(), name_, "socket", socket_row(socket_, counters.invalid));
}

}  // namespace tiercast::ns3_runtime
