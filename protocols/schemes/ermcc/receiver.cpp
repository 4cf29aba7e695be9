#include "protocols/schemes/ermcc/receiver.h"

#include <algorithm>
#include <array>

#include "protocols/base/rng.h"
#include "protocols/wire/quantities.h"

namespace tiercast::ermcc {
Receiver::Receiver(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      place_(static_cast<std::uint32_t>(Rng(config.self_id).next())),
      reception_(settings_.window),
      trac_(settings_.alpha) {}

void Receiver::start(Time now, Sink& sink) {
  now_ = now;
  reception_.subscribe(0, sink);
}

void Receiver::stop(Time, Sink& sink) {
  if (!reception_.joined()) return;
  // Without this message the source would notice only after T_max.
  if (reception_.packets() > 0 && is_cr())
    send(wire::ErmccFeedback::Kind::kLeave, latest_.seq, 0, sink);
  reception_.subscribe(-1, sink);
}

void Receiver::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = now_ = std::max(now_, now);
  wire::ErmccData data;
  if (wire::parse(arrival.message, data) != wire::Error::kOk || data.session != config_.session) {
    reception_.refuse();
    return;
  }
  if (reception_.packets() == 0) first_at_ = now;
  const GapDetector::Packet packet = reception_.receive(now, 0, data.seq, arrival);
  if (packet.order == GapDetector::Order::kStray) return;
  if (packet.order != GapDetector::Order::kLate) latest_ = data;
  // One event per arrival, however many packets are missing.
  if (packet.lost > 0 || (settings_.ecn && arrival.ce)) congestion(now, data.seq, sink);
}

void Receiver::congestion(Time now, std::uint32_t seq, Sink& sink) {
  // A rate over too short a time means nothing, and a newcomer must not cut everybody's rate with
  // it.
  if (now - first_at_ < settings_.min_history) return;
  const double omega = reception_.rate(now).bytes_per_second();  // ERMCC (1), over the past window
  trac_.update(omega);                                           // ERMCC (2), (3)
  const bool slower = latest_.cr_valid && mu() < static_cast<double>(latest_.mu_hat) -
                                                     static_cast<double>(latest_.sigma_hat);
  const bool sent = is_cr() || slower || asked();  // ERMCC 3.1.2
  if (sent) send(wire::ErmccFeedback::Kind::kCongestion, seq, omega, sink);
  const TraceField fields[] = {{"seq", static_cast<double>(seq)},
                               {"omega_Bps", omega},
                               {"mu_Bps", mu()},
                               {"sigma_Bps", sigma()},
                               {"mu_hat_Bps", static_cast<double>(latest_.mu_hat)},
                               {"sigma_hat_Bps", static_cast<double>(latest_.sigma_hat)},
                               {"cr", is_cr() ? 1.0 : 0.0},
                               {"sent", sent ? 1.0 : 0.0}};
  sink.trace("ermcc.trac", fields);
}

// ERMCC 3.1.3: without an active CR, all receivers or one portion of them at a time.
bool Receiver::asked() const {
  return !latest_.cr_valid && place_ - latest_.ask_from <= latest_.ask_share;
}

void Receiver::send(wire::ErmccFeedback::Kind kind, std::uint32_t seq, double omega, Sink& sink) {
  wire::ErmccFeedback feedback;
  feedback.session = config_.session;
  feedback.kind = kind;
  feedback.source = config_.self_id;
  feedback.seq = seq;
  feedback.omega = wire::to_u32(omega);
  feedback.mu = wire::to_u32(mu());
  feedback.sigma = wire::to_u32(sigma());
  std::array<std::byte, wire::ErmccFeedback::kBytes> message;
  sink.send(Destination::sender(), {message.data(), wire::write(feedback, message)});
}

}  // namespace tiercast::ermcc
