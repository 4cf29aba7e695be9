#include "protocols/schemes/pgmcc/sender.h"

#include <algorithm>
#include <array>

#include "protocols/base/rng.h"
#include "protocols/wire/quantities.h"

namespace tiercast::pgmcc {
namespace {

// Bounds of an RTT sample, so that forged feedback neither stops the window nor lets it run wild.
constexpr Duration kMinRtt = Duration::microseconds(100);
constexpr Duration kMaxRtt = Duration::milliseconds(2'000);
constexpr Duration kMaxEcho = Duration::milliseconds(60'000);  // an older echo belongs to no packet
                                                               // of the session
constexpr Duration kMaxTimeout = Duration::milliseconds(30'000);
constexpr unsigned kMaxDoublings = 4;

}  // namespace

Sender::Sender(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      window_(settings_, static_cast<std::uint32_t>(Rng(config.seed).next())),
      departures_(2 * std::size_t{window_.capacity()}),
      named_(2 * std::size_t{window_.capacity()}),
      reflections_(settings_.max_reflections) {}

void Sender::start(Time now, Sink&) { now_ = trace_at_ = now; }
void Sender::stop(Time now, Sink& sink) { membership(now, -1, sink); }

void Sender::membership(Time now, int top_rank, Sink& sink) {
  advance(now);
  const bool subscribed = top_rank >= 0;
  if (subscribed == subscribed_) return;
  subscribed_ = subscribed;
  if (!subscribed_ && has_acker_) dismiss(Reason::kLeft, sink);
  window_.restart();
  credits_ = 0;
  timeouts_ = 0;
  arm();
  pump(sink);
}

void Sender::arm() {
  const Duration timeout =
      rtt_.valid() ? std::max(rtt_.timeout(), settings_.min_timeout) : settings_.initial_timeout;
  // Without an acker, one packet per time-out asks for one.
  const double backoff = has_acker_ ? 1u << std::min(timeouts_, kMaxDoublings) : 1;
  expires_ = subscribed_ ? now_ + std::min(timeout * backoff, kMaxTimeout) : Time::never();
}

void Sender::pump(Sink& sink) {
  if (!subscribed_) return;
  const std::uint32_t wanted = window_.sendable();
  if (wanted <= credits_) return;
  sink.release(0, wanted - credits_);
  credits_ = wanted;
}

std::size_t Sender::write_data(Time now, Rank layer, std::span<std::byte> message) {
  advance(now);
  if (layer != 0) return 0;
  if (credits_ > 0) --credits_;
  if (!subscribed_ || window_.sendable() == 0 || message.size() < wire::PgmccData::kBytes) return 0;
  ++counts_.packets;
  wire::PgmccData data;
  data.session = config_.session;
  data.has_acker = has_acker_;
  data.acker = has_acker_ ? acker_ : 0;
  data.seq = window_.send();
  data.tx_time_us = wire::clock_us(now_);
  departures_.note(data.tx_time_us, data.seq);
  named_[data.seq % named_.size()] = has_acker_ ? std::optional(acker_) : std::nullopt;
  return wire::write(data, message);
}

void Sender::timer(Time now, Sink& sink) {
  advance(now);
  if (now_ < expires_) return;
  ++timeouts_;
  counts_.timeouts += has_acker_ ? 1 : 0;
  window_.restart();
  credits_ = 0;
  if (has_acker_ && timeouts_ >= settings_.acker_timeouts) dismiss(Reason::kSilent, sink);
  arm();
  trace_window(sink);
  pump(sink);
}

bool Sender::unsent(const wire::PgmccFeedback& feedback) const {
  const auto beyond = [&](std::uint32_t seq) { return !serial_newer(window_.next(), seq); };
  return beyond(feedback.rx_max) ||
         (feedback.kind == wire::PgmccFeedback::Kind::kNak && beyond(feedback.missing));
}

bool Sender::recent(const wire::PgmccFeedback& feedback) const {
  return window_.recent(feedback.rx_max) &&
         (feedback.kind != wire::PgmccFeedback::Kind::kNak || window_.recent(feedback.missing));
}

bool Sender::timely(const wire::PgmccFeedback& feedback) const {
  const auto echo = wire::clock_us(now_) - feedback.echo_time_us;
  return feedback.hold_us <= echo && Duration::microseconds(echo) <= kMaxEcho;
}

bool Sender::contradicts_itself(const wire::PgmccFeedback& feedback) {
  if (feedback.kind != wire::PgmccFeedback::Kind::kNak) return false;
  const std::uint32_t behind = feedback.rx_max - feedback.missing;
  return feedback.loss == 0 || (behind < 32 && (feedback.bitmap >> behind & 1) != 0);
}

Duration Sender::rtt_of(const wire::PgmccFeedback& feedback) const {
  const auto echo = wire::clock_us(now_) - feedback.echo_time_us;
  return std::clamp(Duration::microseconds(echo - feedback.hold_us), kMinRtt, kMaxRtt);
}

bool Sender::asked_for(const wire::PgmccFeedback& feedback) const {
  const auto left = departures_.by(feedback.echo_time_us);
  for (std::uint32_t i = 0; left && i < left->at_once; ++i) {
    if (named_[(left->highest - i) % named_.size()] == feedback.source) return true;
  }
  return false;
}

void Sender::receive(Time now, const Arrival& arrival, Sink& sink) {
  advance(now);
  wire::PgmccFeedback feedback;
  if (wire::parse(arrival.message, feedback) != wire::Error::kOk ||
      feedback.session != config_.session || !timely(feedback) ||
      (!unsent(feedback) && !recent(feedback))) {
    ++invalid_;
    return;
  }
  using Kind = wire::PgmccFeedback::Kind;
  // An acknowledgement counts as far as its source can have the packets.
  if ((unsent(feedback) && feedback.kind != Kind::kAck) || contradicts_itself(feedback)) {
    ++implausible_;
    return;
  }
  if (!subscribed_) return;
  switch (feedback.kind) {
    case Kind::kAck: acknowledged(feedback, sink); break;
    case Kind::kNak:
    case Kind::kDummyNak: reported(feedback, sink); break;
    case Kind::kLeaving:
      if (has_acker_ && feedback.source == acker_) {
        dismiss(Reason::kLeft, sink);
        // One packet asks for the next acker.
        window_.restart();
        credits_ = 0;
        arm();
      }
      break;
  }
  pump(sink);
}

void Sender::acknowledged(const wire::PgmccFeedback& feedback, Sink& sink) {
  const bool current = has_acker_ && feedback.source == acker_;
  // A packet that named a former acker is acknowledged by that one, even after the switch.
  if (!current && !asked_for(feedback)) {
    ++invalid_;
    return;
  }
  ++counts_.acks;
  if (current) {
    rtt_.update(rtt_of(feedback));
    loss_ = feedback.loss * 0x1p-32;
  }
  const auto beyond = proof_.beyond(departures_, feedback.echo_time_us, feedback.rx_max);
  const bool is_lie = Proof::is_lie(beyond);
  implausible_ += is_lie ? 1 : 0;
  if (!beyond) return;
  // One that goes too far counts for the packet that it echoes alone.
  const Window::Outcome outcome =
      is_lie ? window_.acknowledge(proof_.echoed(), 1)
             : window_.acknowledge(feedback.rx_max - *beyond, feedback.bitmap >> *beyond);
  counts_.cuts += outcome.cut ? 1 : 0;
  if (outcome.acked > 0) {
    timeouts_ = 0;
    arm();
  }
  if (outcome.cut || now_ >= trace_at_) trace_window(sink);
  if (now_ >= trace_at_) trace_at_ = now_ + std::max(rtt_.srtt(), Duration::milliseconds(10));
}

void Sender::reported(const wire::PgmccFeedback& feedback, Sink& sink) {
  ++counts_.naks;
  const auto known = confirmed_.begin() + std::min<std::ptrdiff_t>(confirmations_, kConfirmed);
  if (feedback.kind == wire::PgmccFeedback::Kind::kNak &&
      std::find(confirmed_.begin(), known, feedback.missing) == known && reflections_.take(now_)) {
    confirmed_[confirmations_ % kConfirmed] = feedback.missing;
    // Wraps to kConfirmed, so that it never falls below that again.
    confirmations_ = confirmations_ < 2 * kConfirmed - 1 ? confirmations_ + 1 : kConfirmed;
    const wire::PgmccConfirmation confirmation{config_.session, feedback.source, feedback.missing};
    std::array<std::byte, wire::PgmccConfirmation::kBytes> message;
    sink.send(Destination::group(0), {message.data(), wire::write(confirmation, message)});
  }
  const Duration rtt = rtt_of(feedback);
  if (!has_acker_) {
    choose(feedback, rtt, Reason::kElected, sink);
    return;
  }
  if (feedback.source == acker_) {
    loss_ = feedback.loss * 0x1p-32;
    return;
  }
  // Switch if T_i < C T_acker. A receiver without loss is never slower.
  const double candidate = slowness(rtt.seconds(), feedback.loss * 0x1p-32);
  const double acker = rtt_.valid() ? slowness(rtt_.srtt().seconds(), loss_) : 0;
  if (candidate * settings_.acker_bias > acker) choose(feedback, rtt, Reason::kSlower, sink);
}

void Sender::choose(const wire::PgmccFeedback& feedback, Duration rtt, Reason reason, Sink& sink) {
  const double before = has_acker_ ? slowness(rtt_.srtt().seconds(), loss_) : 0;
  has_acker_ = true;
  acker_ = feedback.source;
  loss_ = feedback.loss * 0x1p-32;
  rtt_.reset();
  rtt_.update(rtt);
  ++counts_.switches;
  timeouts_ = 0;
  // Nobody acknowledges packets that left without an acker.
  if (reason == Reason::kElected) {
    window_.restart();
    credits_ = 0;
  }
  arm();
  trace_acker(reason, slowness(rtt.seconds(), loss_), before, sink);
}

void Sender::dismiss(Reason reason, Sink& sink) {
  trace_acker(reason, 0, slowness(rtt_.srtt().seconds(), loss_), sink);
  has_acker_ = false;
  timeouts_ = 0;
}

void Sender::trace_acker(Reason reason, double candidate, double before, Sink& sink) const {
  const TraceField fields[] = {{"acker", static_cast<double>(acker_)},
                               {"reason", static_cast<double>(reason)},
                               {"slowness", candidate},
                               {"slowness_before", before},
                               {"p", loss_},
                               {"rtt_us", static_cast<double>(rtt_.srtt().us())}};
  sink.trace("pgmcc.acker", fields);
}

void Sender::trace_window(Sink& sink) const {
  const TraceField fields[] = {{"w", window_.w()},
                               {"tokens", window_.tokens()},
                               {"acker", has_acker_ ? static_cast<double>(acker_) : -1},
                               {"p", loss_},
                               {"rtt_us", static_cast<double>(rtt_.srtt().us())},
                               {"cuts", static_cast<double>(counts_.cuts)},
                               {"timeouts", static_cast<double>(counts_.timeouts)},
                               {"acks", static_cast<double>(counts_.acks)},
                               {"naks", static_cast<double>(counts_.naks)}};
  sink.trace("pgmcc.window", fields);
}

}  // namespace tiercast::pgmcc
