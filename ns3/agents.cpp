// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/agents.h"

#include <ns3/ipv4-address.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "protocols/driver/lying_receiver.h"
#include "protocols/wire/wire.h"

namespace tiercast::ns3_runtime {

Agent::Agent(VirtualNetwork& network, Records& records, const v1::SimulatedSession& spec,
             const std::string& host)
    : network_(network),
      records_(records),
      spec_(spec),
      host_(network.host(host)),
      process_(network.process_of(host_.switch_name)),
      name_(host + spec.suffix()) {
  network.attach(host, *this);
}

SessionConfig Agent::config() const {
  const Scheme& scheme = find_scheme(spec_.session().scheme());
  SessionConfig result;
  result.session = session();
  result.layers = spec_.session().layers();
  result.packet_size = spec_.session().packet_size();
  result.self_id = host_.number;
  result.seed = (spec_.session().seed() << 16) + host_.number;  // as in real time
  result.parameters = Parameters(scheme.parameters);
  for (const auto& [name, value] : spec_.session().parameters()) {
    result.parameters.set(name + "=" + value);
  }
  return result;
}

void Agent::call_at(Time due) {
  if (due.is_never()) return process_.cancel(call_);
  process_.schedule(call_, due.ns());
}

void Agent::begin_reports() {
  if (records_.silent()) return;
  process_.schedule(next_report_, process_.now() + records_.interval(kReportNs));
}

void Agent::report_and_go_on() {
  if (!running()) return;
  report(++reports_ * records_.interval(kReportNs) % kSecondNs == 0);
  begin_reports();
}

void Agent::finish() {
  if (running()) report(true);
}

void Agent::report_now() {
  if (running()) report(false);
}

void Agent::trace(Time now, std::string_view kind, std::span<const TraceField> fields) {
  records_.add(now.ns(), name_, kind, fields);
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

SenderAgent::SenderAgent(VirtualNetwork& network, Records& records,
                         const v1::SimulatedSession& spec)
    : Agent(network, records, spec, spec.sender()),
      scheme_(find_scheme(spec.session().scheme())),
      config_(own_config()),
      driver_(scheme_.make_sender(config_), {scheme_, config_}, *this, SessionPacing(config_)),
      message_(spec.session().packet_size() - kIpUdpHeaderBytes) {
  const auto layers = static_cast<Rank>(spec.session().layers());
  for (Rank rank = 0; rank < layers; ++rank) {
    wire::UdpFlow& flow = layers_[rank].flow;
    flow.source_mac = host_.mac;
    flow.source = host_.address;
    flow.source_port = wire::kDataPort;
    flow.destination = wire::group_address(session(), rank);
    flow.destination_mac = wire::multicast_mac(flow.destination);
    flow.destination_port = wire::kDataPort;
    flow.ecn = driver_.core().ecn_capable() ? wire::Ecn::kEct0 : wire::Ecn::kNotEct;
  }
  driver_.membership(now(), -1);  // until the network says who subscribes
}

SessionConfig SenderAgent::own_config() const {
  SessionConfig result = config();
  if (spec_.session().members_size() > 0) {
    std::vector<Member> members;
    for (const v1::Member& member : spec_.session().members()) {
      members.push_back(
          {member.id(), ns3::Ipv4Address(member.address().c_str()).Get(), member.below()});
    }
    result.members = std::make_shared<const Members>(std::move(members));
  }
  return result;
}

void SenderAgent::start() {
  driver_.start(now());
  begin_reports();
  call_at(driver_.next_call(now()));
}

void SenderAgent::stop() {
  if (!running()) return;
  report(true);
  driver_.stop(now());
  call_at(Time::never());
}

void SenderAgent::membership(int top_rank) {
  driver_.membership(now(), top_rank);
  if (running()) send_released_and_go_on();
}

void SenderAgent::receive(std::span<const std::byte> frame) {
  wire::UdpPacket packet;
  if (!parse(frame, packet) || packet.destination != host_.address ||
      packet.destination_port != wire::kFeedbackPort) {
    return;  // it belongs to another program
  }
  wire::CommonHeader header;
  if (wire::parse_common(packet.payload, header) != wire::Error::kOk) {
    ++feedback_.malformed;
    return;
  }
  if (header.session != spec_.session().session() ||
      static_cast<std::uint8_t>(header.scheme) != scheme_.id) {
    ++feedback_.foreign;
    return;
  }
  if (!running()) return;
  if (!driver_.receive(
          now(), {packet.payload, packet.ip_length, packet.ecn == wire::Ecn::kCe, packet.source})) {
    return;
  }
  ++feedback_.delivered;
  send_released_and_go_on();
}

void SenderAgent::act() {
  driver_.run(now());
  call_at(driver_.next_call(now()));
}

void SenderAgent::send_released_and_go_on() {
  driver_.send_released(now());
  call_at(driver_.next_call(now()));
}

void SenderAgent::depart(Time now, const Departure& departure) {
  Layer& layer = layers_[departure.layer];
  if (driver_.write_data(now, departure.layer, message_) == 0) return;
  ++layer.counters.generated;
  ++layer.counters.sent;
  send_udp(layer.flow, message_);
}

void SenderAgent::send(Destination to, std::span<const std::byte> message) {
  wire::UdpFlow flow = layers_[0].flow;
  flow.ecn = wire::Ecn::kNotEct;
  if (to.kind == Destination::Kind::kGroup) {
    flow.destination = layers_[to.rank].flow.destination;
    flow.destination_mac = layers_[to.rank].flow.destination_mac;
  } else {
    flow.destination = to.address;
    flow.destination_mac = host_.gateway_mac;
  }
  send_udp(flow, message);
}

void SenderAgent::report(bool second) {
  const auto layers = static_cast<Rank>(spec_.session().layers());
  for (Rank rank = 0; rank < layers; ++rank) {
    const Layer& layer = layers_[rank];
    records_.add(
        now().ns(), name_, "layer",
        layer_row(rank, driver_.rate(rank), spec_.session().packet_size(), layer.counters));
  }
  if (second) {
    records_.add(
        now().ns(), name_, "feedback",
        feedback_row(feedback_, driver_.core().invalid(), driver_.core().implausible(), 0));
    if (driver_.refusals().total() > 0) {
      records_.add(now().ns(), name_, "feedback.refused", feedback_refused_row(driver_.refusals()));
    }
  }
}

// ----------------------------------------------------------------------------------- receiver

ReceiverAgent::ReceiverAgent(VirtualNetwork& network, Records& records,
                             const v1::SimulatedSession& spec, const v1::SimulatedReceiver& own,
                             Membership membership)
    : Agent(network, records, spec, own.host()),
      membership_(std::move(membership)),
      member_(find_scheme(spec.session().scheme()), own_config(own), *this) {
  sender_address_ = network.host(spec.sender()).address;
  feedback_.source_mac = host_.mac;
  feedback_.destination_mac = host_.gateway_mac;
  feedback_.source = host_.address;
  feedback_.destination = sender_address_;
  feedback_.source_port = wire::kFeedbackPort;
  feedback_.destination_port = wire::kFeedbackPort;
}

SessionConfig ReceiverAgent::own_config(const v1::SimulatedReceiver& own) const {
  SessionConfig result = config();
  result.lie = find_lie(find_scheme(spec_.session().scheme()), own.lie());
  return result;
}

void ReceiverAgent::start() {
  if (running()) return;
  member_.start(now());
  begin_reports();
  call_at(member_.next_call());
}

void ReceiverAgent::stop() {
  if (!running()) return;
  report(true);
  member_.stop(now());
  call_at(Time::never());
}

void ReceiverAgent::receive(std::span<const std::byte> frame) {
  wire::UdpPacket packet;
  if (!running() || !parse(frame, packet) || packet.destination_port != wire::kDataPort) return;
  const std::uint32_t rank = packet.destination - wire::group_address(session(), 0);
  const bool unicast = packet.destination == host_.address;
  // A kernel passes on only what its host has joined, and a host can be in several sessions.
  if (!unicast && (rank >= spec_.session().layers() || !member_.joined(static_cast<Rank>(rank)))) {
    return;
  }
  if (packet.source != sender_address_) {
    ++socket_.foreign;
    return;
  }
  const auto group = unicast ? std::nullopt : std::optional(static_cast<Rank>(rank));
  member_.receive(now(),
                  {packet.payload, packet.ip_length, packet.ecn == wire::Ecn::kCe, packet.source},
                  group);
  call_at(member_.next_call());
}

void ReceiverAgent::act() {
  if (!running()) return;
  member_.run(now());
  call_at(member_.next_call());
}

void ReceiverAgent::send(std::span<const std::byte> message) { send_udp(feedback_, message); }

Time ReceiverAgent::join(Rank rank) {
  membership_(host_, spec_, rank, true);
  return now();
}

void ReceiverAgent::leave(Rank rank) { membership_(host_, spec_, rank, false); }

void ReceiverAgent::first_packet(Time now, Rank rank, Duration since_join) {
  trace(now, "join", join_row(rank, since_join));
}

void ReceiverAgent::report(bool second) {
  const ReceiverCounters counters = member_.counters();
  records_.add(now().ns(), name_, "received", received_row(counters));
  if (second) records_.add(now().ns(), name_, "socket", socket_row(socket_, counters.invalid));
}

}  // namespace tiercast::ns3_runtime
