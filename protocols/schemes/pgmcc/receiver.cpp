#include "protocols/schemes/pgmcc/receiver.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "protocols/base/serial.h"

namespace tiercast::pgmcc {
namespace {

// A packet further ahead is a stray one. This is less than in PROTOCOLS 0.2, because each missing
// packet may cause a NAK.
constexpr std::int32_t kMaxGap = 1 << 10;
// If so many packets in a row are not new, the highest number came from a forged packet.
constexpr unsigned kRepeatsToRestart = 8;

}  // namespace

Receiver::Receiver(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      rng_(config.seed),
      meter_(Duration::seconds(1)) {}

void Receiver::start(Time now, Sink& sink) {
  now_ = now;
  reception_.subscribe(0, sink);
}

void Receiver::stop(Time now, Sink& sink) {
  now_ = std::max(now_, now);
  nak_at_ = Time::never();
  if (!reception_.joined()) return;
  if (known_ > 0 && acker_) send(wire::PgmccFeedback::Kind::kLeaving, 0, sink);
  reception_.subscribe(-1, sink);
}

ReceiverCounters Receiver::counters() const {
  ReceiverCounters counters = reception_.counters();
  counters.rate = meter_.rate(now_);
  return counters;
}

void Receiver::receive(Time now, const Arrival& arrival, Sink& sink) {
  now_ = std::max(now_, now);
  if (!reception_.joined()) return;
  wire::PgmccData packet;
  wire::PgmccConfirmation confirmation;
  if (wire::parse(arrival.message, packet) == wire::Error::kOk &&
      packet.session == config_.session) {
    data(packet, arrival, sink);
  } else if (wire::parse(arrival.message, confirmation) == wire::Error::kOk &&
             confirmation.session == config_.session) {
    confirmed(confirmation);
  } else {
    reception_.refuse();
  }
}

void Receiver::data(const wire::PgmccData& packet, const Arrival& arrival, Sink& sink) {
  if (!note(packet.seq, settings_.ecn && arrival.ce, sink)) {
    reception_.refuse();
    return;
  }
  reception_.count(arrival);
  meter_.add(now_, arrival.ip_length);
  acker_ = packet.has_acker && packet.acker == config_.self_id;
  echo_time_us_ = packet.tx_time_us;
  echo_at_ = now_;
  if (acker_) {
    send(wire::PgmccFeedback::Kind::kAck, 0, sink);
  } else if (!packet.has_acker) {
    plan(wire::PgmccFeedback::Kind::kDummyNak, 0, sink);
  } else if (nak_kind_ == wire::PgmccFeedback::Kind::kDummyNak) {
    naks_suppressed_ += nak_at_.is_never() ? 0 : 1;
    nak_at_ = Time::never();  // an acker was elected
  }
}

// Enters a packet into the history. False if it is not from the sender that this receiver follows.
bool Receiver::note(std::uint32_t seq, bool marked, Sink& sink) {
  const GapDetector::Packet packet = gaps_.receive(seq, kMaxGap);
  if (packet.order == GapDetector::Order::kStray) return false;
  const bool late = packet.order == GapDetector::Order::kLate;
  const std::uint64_t bit = marked ? 0 : 1;
  repeats_ = late ? repeats_ + 1 : 0;
  if (known_ == 0 || packet.order == GapDetector::Order::kRestart ||
      repeats_ >= kRepeatsToRestart) {
    begin(seq);
    history_ = bit;
    return true;
  }
  if (late) {
    const std::int32_t behind = serial_difference(rx_max_, seq);
    if (behind < 64) history_ |= bit << behind;
    const bool was_missed = nak_kind_ == wire::PgmccFeedback::Kind::kNak && nak_missing_ == seq;
    if (was_missed && !marked) nak_at_ = Time::never();
    return true;
  }
  for (std::uint32_t i = 0; i <= packet.lost; ++i) {
    ++rx_max_;
    history_ = history_ << 1 | (i == packet.lost ? bit : 0);
    known_ = std::min(known_ + 1, 64u);
    if (known_ > kReordering) {
      judge(rx_max_ - kReordering, (history_ >> kReordering & 1) != 0, sink);
    }
  }
  return true;
}

void Receiver::begin(std::uint32_t seq) {
  gaps_.reset();
  gaps_.receive(seq);
  repeats_ = 0;
  rx_max_ = seq;
  known_ = 1;
  nak_at_ = Time::never();
}

// The loss filter: p <- c p + (1 - c) x.
void Receiver::judge(std::uint32_t seq, bool received, Sink& sink) {
  loss_ = settings_.loss_constant * loss_ + (1 - settings_.loss_constant) * (received ? 0 : 1);
  if (received) return;
  reception_.lose(1);
  plan(wire::PgmccFeedback::Kind::kNak, seq, sink);
}

// A NAK waits for a random time, in which another receiver's NAK may make it unnecessary.
void Receiver::plan(wire::PgmccFeedback::Kind kind, std::uint32_t missing, Sink& sink) {
  if (acker_) return;  // its acknowledgements carry the same information
  if (settings_.nak_backoff == Duration::zero()) {
    send(kind, missing, sink);
    return;
  }
  if (!nak_at_.is_never()) return;
  nak_kind_ = kind;
  nak_missing_ = missing;
  nak_at_ = now_ + settings_.nak_backoff * rng_.uniform();
}

void Receiver::confirmed(const wire::PgmccConfirmation& confirmation) {
  if (nak_at_.is_never() || nak_kind_ != wire::PgmccFeedback::Kind::kNak ||
      confirmation.missing != nak_missing_) {
    return;
  }
  nak_at_ = Time::never();
  ++naks_suppressed_;
}

void Receiver::timer(Time now, Sink& sink) {
  now_ = std::max(now_, now);
  if (now_ < nak_at_) return;
  nak_at_ = Time::never();
  send(nak_kind_, nak_missing_, sink);
}

void Receiver::send(wire::PgmccFeedback::Kind kind, std::uint32_t missing, Sink& sink) {
  wire::PgmccFeedback feedback;
  feedback.session = config_.session;
  feedback.kind = kind;
  feedback.source = config_.self_id;
  feedback.rx_max = rx_max_;
  feedback.bitmap = static_cast<std::uint32_t>(history_);
  feedback.echo_time_us = echo_time_us_;
  feedback.hold_us =
      static_cast<std::uint32_t>(std::min<std::int64_t>((now_ - echo_at_).us(), 0xffffffff));
  const bool is_nak = kind == wire::PgmccFeedback::Kind::kNak;
  // However long ago it was, something was lost.
  feedback.loss =
      static_cast<std::uint32_t>(std::clamp(loss_ * 0x1p32, is_nak ? 1.0 : 0.0, 4294967295.0));
  feedback.missing = is_nak ? missing : 0;
  std::array<std::byte, wire::PgmccFeedback::kBytes> message;
  sink.send(Destination::sender(), {message.data(), wire::write(feedback, message)});
}

}  // namespace tiercast::pgmcc
