#include "protocols/schemes/ermcc/sender.h"

#include <algorithm>

#include "protocols/base/rng.h"
#include "protocols/base/serial.h"
#include "protocols/wire/quantities.h"

namespace tiercast::ermcc {
Sender::Sender(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      trac_(settings_.alpha),
      rtt_(settings_.rtt_weight),
      response_(settings_.alpha, 0.5),
      ask_share_(wire::to_u32(settings_.ask_fraction * 4294967295.0)),
      // Numbers start anywhere, so that a restarted source does not look like the old one.
      seq_(static_cast<std::uint32_t>(Rng(config.seed).next())),
      send_times_(settings_.send_times) {}

Time Sender::advance(Time now) { return now_ = std::max(now_, now); }

Duration Sender::rtt() const {
  return rtt_.valid() ? Duration::seconds(rtt_.value()) : settings_.initial_rtt;
}

Duration Sender::max_rtt() const { return max_rtt_ > Duration::zero() ? max_rtt_ : rtt(); }

Duration Sender::t_max() const {
  // ERMCC 3.2.2
  if (!response_.valid()) return std::max(settings_.first_t_max, rtt() * 20);
  return std::max(
      Duration::seconds(response_.mean() + settings_.silent_deviations * response_.deviation()),
      rtt() * 2);
}

void Sender::start(Time now, Sink&) { now_ = now; }

void Sender::stop(Time now, Sink& sink) { membership(now, -1, sink); }

void Sender::membership(Time now, int top_rank, Sink& sink) {
  now = advance(now);
  if (top_rank >= 0 && !running_) {
    begin(now, sink);
  } else if (top_rank < 0 && running_) {
    running_ = false;
    rate_ = Rate::zero();
    sink.set_rate(0, rate_);
  }
}

void Sender::begin(Time now, Sink& sink) {
  running_ = true;
  cut_once_ = false;
  cr_known_ = false;
  cr_valid_ = false;
  trac_.reset();
  rtt_.reset();
  max_rtt_ = Duration::zero();
  response_.reset();
  full_ = false;
  longer_rtt_until_ = now;
  next_ask_ = now + max_rtt();
  set_rate(Rate::bytes_per_second(config_.packet_size / rtt().seconds()), sink);
  tick_ = now + rtt();
}

std::size_t Sender::write_data(Time now, Rank layer, std::span<std::byte> message) {
  now = advance(now);
  if (layer != 0) return 0;
  wire::ErmccData data;
  data.session = config_.session;
  data.cr_valid = cr_valid_;
  data.seq = seq_;
  data.cr = cr_;
  data.mu_hat = wire::to_u32(mu_hat());
  data.sigma_hat = wire::to_u32(sigma_hat());
  data.ask_from = ask_from_;
  data.ask_share = ask_share_;
  const std::size_t length = wire::write(data, message);
  if (length == 0) return 0;
  send_times_[seq_ % send_times_.size()] = now;
  ++seq_;
  ++sent_;
  return length;
}

void Sender::set_rate(Rate rate, Sink& sink) {
  // At the floor a packet leaves every second, or every four RTTs if that is more often, so that a
  // loss can still be noticed.
  const double s = config_.packet_size;
  const Rate floor = Rate::bytes_per_second(std::max(s, s / (4 * max_rtt().seconds())));
  rate = std::min(std::max(rate, floor), settings_.max_rate);
  if (rate == rate_) return;
  rate_ = rate;
  sink.set_rate(0, rate_);
}

bool Sender::cut_lately(Time now) const { return cut_once_ && now - last_cut_ < rtt(); }

// ERMCC Appendix A, "Event every RTT".
void Sender::timer(Time now, Sink& sink) {
  now = advance(now);
  if (!running_ || now < tick_) return;
  if (!cut_lately(now)) {
    set_rate(rate_ + Rate::bytes_per_second(config_.packet_size / rtt().seconds()), sink);
    // A rate at the cap cannot grow until the bottleneck is full, so the bottleneck counts as full.
    const Rate full =
        std::min(Rate::bytes_per_second(mu_hat() + settings_.full_deviations * sigma_hat()),
                 settings_.max_rate);
    if (cr_valid_ && !full_ && rate_ >= full) {
      full_ = true;
      full_since_ = now;
    }
    const TraceField fields[] = {{"rate_Bps", rate_.bytes_per_second()},
                                 {"rtt_us", rtt().seconds() * 1e6},
                                 {"mu_Bps", mu_hat()},
                                 {"sigma_Bps", sigma_hat()},
                                 {"full", full_ ? 1.0 : 0.0}};
    sink.trace("ermcc.increase", fields);
  }
  if (full_ && now - full_since_ >= t_max()) deactivate(now, Reason::kSilent, sink);
  if (!cr_valid_ && now >= next_ask_) ask(now);
  tick_ = now + rtt();
}

void Sender::deactivate(Time now, Reason reason, Sink& sink) {
  cr_valid_ = false;
  full_ = false;
  ask(now);
  trace_cr(reason, sink);
}

// ERMCC 3.1.3: asks the next portion of the receivers.
void Sender::ask(Time now) {
  ask_from_ += ask_share_ + 1;
  next_ask_ = now + max_rtt();
}

std::optional<std::uint64_t> Sender::position(std::uint32_t seq) const {
  const std::int32_t age = serial_difference(seq_, seq);
  if (age <= 0 || static_cast<std::uint64_t>(age) > sent_) return std::nullopt;
  return sent_ - static_cast<std::uint64_t>(age);
}

Duration Sender::rtt_sample(Time now, std::uint32_t seq) const {
  if (seq_ - seq > send_times_.size()) return Duration::zero();
  return std::clamp(now - send_times_[seq % send_times_.size()], kMinRtt, kMaxRtt);
}

// ERMCC Appendix A, "Event upon receipt of feedback from r".
void Sender::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = advance(now);
  wire::ErmccFeedback feedback;
  if (wire::parse(arrival.message, feedback) != wire::Error::kOk ||
      feedback.session != config_.session) {
    ++invalid_;
    return;
  }
  const auto reported = position(feedback.seq);
  if (!reported) {
    ++implausible_;
    return;
  }
  if (!running_) return;
  const bool from_cr = cr_known_ && feedback.source == cr_;
  if (feedback.kind == wire::ErmccFeedback::Kind::kLeave) {
    if (from_cr && cr_valid_) deactivate(now, Reason::kLeft, sink);
    return;
  }
  const Duration sample = rtt_sample(now, feedback.seq);
  Reason reason = Reason::kNone;
  if (from_cr) {
    if (*reported <= cr_position_) return;  // a duplicate, or overtaken by a later one
    if (full_) response_.update((now - full_since_).seconds());
    update_stats(feedback, sample);
    if (!cr_valid_) reason = Reason::kNoCr;
  } else {
    reason = choice(now, feedback, sample);
    if (reason == Reason::kNone) return;
    if (reason == Reason::kNoCr) longer_rtt_until_ = now + max_rtt() * 2;
    choose(feedback, sample);
  }
  // Appendix A validates only in CutRate, so not if a cut was made recently. The new CR would then
  // stay inactive, and all receivers would go on reporting.
  cr_valid_ = true;
  cr_position_ = *reported;
  full_ = false;
  cut(now, feedback, sink);
  if (reason != Reason::kNone) trace_cr(reason, sink);
}

// ERMCC 3.2.1.
Sender::Reason Sender::choice(Time now, const wire::ErmccFeedback& feedback, Duration rtt) const {
  if (!cr_valid_) return Reason::kNoCr;
  if (now < longer_rtt_until_) {
    const bool similar = feedback.mu <= mu_hat() + sigma_hat();
    return similar && rtt > this->rtt() ? Reason::kLongerRtt : Reason::kNone;
  }
  return feedback.mu < mu_hat() - sigma_hat() ? Reason::kSlower : Reason::kNone;
}

void Sender::choose(const wire::ErmccFeedback& feedback, Duration rtt) {
  cr_known_ = true;
  cr_ = feedback.source;
  trac_.set(feedback.mu, feedback.sigma);
  if (rtt > Duration::zero()) {
    rtt_.reset();
    rtt_.update(rtt.seconds());
    max_rtt_ = std::max(max_rtt_, rtt);
  }
}

// ERMCC 3.2.4. With mu from the receiver, the receiver has averaged already.
void Sender::update_stats(const wire::ErmccFeedback& feedback, Duration rtt) {
  if (settings_.mu_at_source) {
    trac_.update(feedback.omega);
  } else {
    trac_.set(feedback.mu, feedback.sigma);
  }
  if (rtt > Duration::zero()) {
    rtt_.update(rtt.seconds());
    max_rtt_ = std::max(max_rtt_, this->rtt());
  }
}

// ERMCC 3.2.3: at most one cut per RTT.
void Sender::cut(Time now, const wire::ErmccFeedback& feedback, Sink& sink) {
  if (cut_lately(now)) return;
  cut_once_ = true;
  last_cut_ = now;
  set_rate(std::min(rate_, Rate::bytes_per_second(settings_.beta * feedback.omega)), sink);
  const TraceField fields[] = {{"cr", static_cast<double>(cr_)},
                               {"omega_Bps", static_cast<double>(feedback.omega)},
                               {"mu_Bps", mu_hat()},
                               {"sigma_Bps", sigma_hat()},
                               {"rate_Bps", rate_.bytes_per_second()},
                               {"rtt_us", rtt().seconds() * 1e6}};
  sink.trace("ermcc.cut", fields);
}

void Sender::trace_cr(Reason reason, Sink& sink) const {
  const TraceField fields[] = {{"cr", static_cast<double>(cr_)},
                               {"valid", cr_valid_ ? 1.0 : 0.0},
                               {"reason", static_cast<double>(reason)},
                               {"mu_Bps", mu_hat()},
                               {"sigma_Bps", sigma_hat()},
                               {"rtt_us", rtt().seconds() * 1e6},
                               {"max_rtt_us", max_rtt().seconds() * 1e6},
                               {"t_max_s", t_max().seconds()}};
  sink.trace("ermcc.cr", fields);
}

}  // namespace tiercast::ermcc
