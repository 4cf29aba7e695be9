#include "dataplane/sender/sender.h"

#include <algorithm>

#include "agent/clock.h"

namespace tiercast::sender {
namespace {

// Bound on the time that received frames wait where the driver cannot wake us.
constexpr Duration kPollInterval = Duration::milliseconds(1);
// Bursts taken before departures are looked at again.
constexpr unsigned kMaxBursts = 4;

double us(Duration duration) { return static_cast<double>(duration.ns()) / 1000; }

}  // namespace

Sender::Sender(const SessionConfig& session, const Scheme& scheme, const SenderAddresses& addresses,
               Port& port, agent::EventLoop& loop, agent::Telemetry& telemetry)
    : session_(session),
      scheme_(static_cast<wire::SchemeId>(scheme.id)),
      addresses_(addresses),
      port_(port),
      telemetry_(telemetry),
      core_(scheme.make_sender(session)),
      pacer_(session.layers),
      payload_(session.packet_size - kIpUdpHeaderBytes) {
  for (std::size_t i = 0; i < payload_.size(); ++i) payload_[i] = static_cast<std::byte>(i);
  for (Rank rank = 0; rank < session.layers; ++rank) {
    wire::UdpFlow& flow = flows_[rank];
    flow.source_mac = addresses.own.mac;
    flow.source = addresses.own.ip;
    flow.source_port = wire::kDataPort;
    flow.destination = wire::group_address(session.session, rank);
    flow.destination_mac = wire::multicast_mac(flow.destination);
    flow.destination_port = wire::kDataPort;
    flow.ecn = core_->ecn_capable() ? wire::Ecn::kEct0 : wire::Ecn::kNotEct;
  }
  if (port.receive_descriptor() >= 0) {
    // The frames are taken in run(), which follows every wake-up.
    loop.watch(port.receive_descriptor(), [this] {
      if (!running_) receive_all();
    });
  }
}

void Sender::start(Time now) {
  now_ = now;
  running_ = true;
  core_->start(now, *this);
}

void Sender::membership(Time now, int top_rank) {
  now_ = now;
  core_->membership(now, top_rank, *this);
}

void Sender::run(Time now) {
  now_ = now;
  receive_all();
  if (core_->next_timer() <= now_) core_->timer(now_, *this);
  now_ = agent::monotonic_now();
  while (const auto departure = pacer_.pop(now_)) {
    now_ = agent::monotonic_now();
    late_.add(now_ - departure->due);
    send_data(static_cast<Rank>(departure->layer));
  }
  send_released();
}

void Sender::send_released() {
  for (Rank layer = 0; layer < session_.layers; ++layer) {
    for (; released_[layer] > 0; --released_[layer]) send_data(layer);
  }
}

Time Sender::next_deadline() const {
  const auto waits = [](std::uint32_t packets) { return packets > 0; };
  if (std::any_of(released_.begin(), released_.end(), waits)) return now_;
  const Time next = std::min(pacer_.next_departure(), core_->next_timer());
  if (port_.receive_descriptor() >= 0) return next;
  return std::min(next, now_ + kPollInterval);
}

void Sender::stop(Time now) {
  now_ = now;
  core_->stop(now, *this);
  running_ = false;
}

// Frames that arrive before start() or after stop() are taken too, so that ARP is
// answered and the ring stays empty.
void Sender::receive_all() {
  for (unsigned bursts = 0; bursts < kMaxBursts; ++bursts) {
    const unsigned received =
        port_.receive([this](std::span<std::byte> frame) { handle_frame(frame); });
    if (received < Port::kBurst) return;
  }
}

void Sender::handle_frame(std::span<std::byte> frame) {
  if (const auto reply = answer(addresses_.own, frame); !reply.empty()) {
    if (const auto out = port_.allocate(reply.size())) {
      std::copy(reply.begin(), reply.end(), out->bytes.begin());
      control_dropped_ += port_.transmit(*out) ? 0 : 1;
    }
    return;
  }
  wire::UdpPacket packet;
  switch (wire::parse_udp_frame(frame, packet)) {
    case wire::FrameError::kOk:
      break;
    case wire::FrameError::kNotIpv4:
    case wire::FrameError::kNotUdp:
      ++feedback_.foreign;
      return;
    default:
      ++feedback_.malformed;
      return;
  }
  if (packet.destination != addresses_.own.ip || packet.destination_port != wire::kFeedbackPort) {
    ++feedback_.foreign;
    return;
  }
  wire::CommonHeader header;
  if (wire::parse_common(packet.payload, header) != wire::Error::kOk) {
    ++feedback_.malformed;
    return;
  }
  if (header.session != session_.session || header.scheme != scheme_) {
    ++feedback_.foreign;
    return;
  }
  if (!running_) return;
  ++feedback_.delivered;
  core_->receive(now_,
                 {packet.payload, packet.ip_length, packet.ecn == wire::Ecn::kCe, packet.source},
                 *this);
}

void Sender::send_data(Rank layer) {
  LayerCounters& counters = layers_[layer];
  const auto frame = port_.allocate(wire::kEthernetBytes + session_.packet_size);
  if (!frame) {
    ++counters.generated;
    ++counters.dropped;
    return;
  }
  const auto message = frame->bytes.subspan(wire::kFrameHeaderBytes);
  std::copy(payload_.begin(), payload_.end(), message.begin());
  if (core_->write_data(now_, layer, message) == 0) {
    port_.discard(*frame);
    return;
  }
  wire::write_udp_headers(flows_[layer], next_ip_id_++, frame->bytes);
  ++counters.generated;
  ++(port_.transmit(*frame) ? counters.sent : counters.dropped);
}

void Sender::send(Destination to, std::span<const std::byte> message) {
  wire::UdpFlow flow = flows_[0];
  flow.ecn = wire::Ecn::kNotEct;
  if (to.kind == Destination::Kind::kGroup && to.rank < session_.layers) {
    flow.destination = flows_[to.rank].destination;
    flow.destination_mac = flows_[to.rank].destination_mac;
  } else if (to.kind == Destination::Kind::kReceiver) {
    flow.destination = to.address;
    flow.destination_mac = addresses_.gateway;
  } else {
    return;  // a sender has no message for itself
  }
  const auto frame = port_.allocate(wire::kFrameHeaderBytes + message.size());
  if (!frame) {
    ++control_dropped_;
    return;
  }
  std::copy(message.begin(), message.end(), frame->bytes.begin() + wire::kFrameHeaderBytes);
  wire::write_udp_headers(flow, next_ip_id_++, frame->bytes);
  control_dropped_ += port_.transmit(*frame) ? 0 : 1;
}

// A sender subscribes to nothing.
void Sender::join(Rank) {}
void Sender::leave(Rank) {}

void Sender::set_rate(Rank layer, Rate rate) {
  if (layer >= session_.layers) return;
  rates_[layer] = rate;
  pacer_.set_rate(now_, layer, rate, session_.packet_size);
}

void Sender::release(Rank layer, std::uint32_t packets) {
  if (layer < session_.layers) released_[layer] += packets;
}

void Sender::deliver(std::uint64_t, std::span<const std::byte>) {}

void Sender::trace(std::string_view kind, std::span<const TraceField> fields) {
  telemetry_.record(now_, kind, fields);
}

std::uint64_t Sender::dropped() const {
  std::uint64_t total = 0;
  for (const LayerCounters& layer : layers_) total += layer.dropped;
  return total;
}

void Sender::report(Time now, bool second, bool last) {
  for (Rank rank = 0; rank < session_.layers; ++rank) {
    telemetry_.record(now, "layer",
                      layer_row(rank, rates_[rank], session_.packet_size, layers_[rank]));
  }
  if (!second) return;
  telemetry_.record(now, "feedback",
                    feedback_row(feedback_, core_->invalid(), control_dropped_));
  report_pacer(now, "pacer", late_, dropped() - dropped_reported_);
  dropped_reported_ = dropped();
  late_total_.add(late_);
  late_.reset();
  if (last) report_pacer(now, "pacer.final", late_total_, dropped());
}

void Sender::report_pacer(Time now, std::string_view kind, const agent::Histogram& late,
                          std::uint64_t dropped_packets) {
  telemetry_.record(now, kind,
                    {{"late_p50_us", us(late.quantile(0.5))},
                     {"late_p99_us", us(late.quantile(0.99))},
                     {"late_p999_us", us(late.quantile(0.999))},
                     {"late_max_us", us(late.max())},
                     {"count", static_cast<double>(late.count())},
                     {"dropped", static_cast<double>(dropped_packets)}});
}

}  // namespace tiercast::sender
