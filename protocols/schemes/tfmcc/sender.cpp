#include "protocols/schemes/tfmcc/sender.h"

#include <algorithm>

#include "protocols/base/rng.h"
#include "protocols/wire/quantities.h"

namespace tiercast::tfmcc {
Sender::Sender(const SessionConfig& config)
    : config_(config), settings_(Settings::from(config)), max_rtt_(settings_.initial_rtt) {
  // A restarted sender must not look like the old one: all numbers start anywhere.
  Rng rng(config.seed);
  seq_ = static_cast<std::uint32_t>(rng.next());
  fb_round_ = static_cast<std::uint16_t>(rng.next());
}

Time Sender::advance(Time now) { return now_ = std::max(now_, now); }

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

// RFC 4654, 3.1.
void Sender::begin(Time now, Sink& sink) {
  running_ = true;
  slow_start_ = true;
  max_rtt_ = settings_.initial_rtt;
  clr_valid_ = false;
  clr_rate_ = Rate::zero();
  echo_ = {};
  raised_at_ = now;
  set_rate(Rate::bytes_per_second(config_.packet_size / max_rtt_.seconds()), sink);
  begin_round(now);
  halve_at_ = now + round_length() * 2;
}

Time Sender::next_timer() const {
  return running_ ? std::min(round_ends_, halve_at_) : Time::never();
}

Duration Sender::patience() const {
  return std::max(max_rtt_, rate_.time_for(config_.packet_size));
}

Duration Sender::round_length() const {
  return std::max(max_rtt_ * settings_.round_rtts,
                  rate_.time_for(config_.packet_size) * (settings_.round_packets + 1));
}

std::size_t Sender::write_data(Time now, Rank layer, std::span<std::byte> message) {
  now = advance(now);
  if (layer != 0) return 0;
  wire::TfmccData data;
  data.session = config_.session;
  data.clr_valid = clr_valid_;
  data.slow_start = slow_start_;
  data.seq = seq_;
  data.tx_time_us = wire::clock_us(now);
  data.fb_round = fb_round_;
  data.rate = wire::to_u32(rate_);
  data.supp_rate = supp_rate_;
  data.supp_rate_blind = supp_rate_blind_;
  data.max_rtt_us = wire::to_u32(max_rtt_);
  data.clr = clr_;
  data.echo_valid = echo_.urgency != Urgency::kNone;
  if (data.echo_valid) {
    data.echo_source = echo_.source;
    data.echo_time_us = echo_.time_us;
    data.echo_hold_us = wire::to_u32((now - echo_.arrived));
  }
  const std::size_t length = wire::write(data, message);
  if (length == 0) return 0;
  ++seq_;
  echo_ = {};
  return length;
}

void Sender::set_rate(Rate rate, Sink& sink) {
  const Rate floor = Rate::bytes_per_second(config_.packet_size / kMaxInterval);
  rate = std::min(std::max(rate, floor), settings_.max_rate);
  if (rate == rate_) return;
  rate_ = rate;
  sink.set_rate(0, rate_);
}

void Sender::begin_round(Time now) {
  ++fb_round_;
  round_began_ = now;
  round_ends_ = now + round_length();
  overtime_ = false;
  others_heard_ = false;
  reports_ = 0;
  peak_rtt_ = Duration::zero();
  supp_rate_ = wire::TfmccData::kNoRate;
  supp_rate_blind_ = wire::TfmccData::kNoRate;
}

// RFC 4654, 3.2 and 3.4.
void Sender::end_round(Time now, Sink& sink) {
  if (peak_rtt_ > Duration::zero()) max_rtt_ = std::max(max_rtt_ * settings_.rtt_decay, peak_rtt_);
  const TraceField fields[] = {{"round", static_cast<double>(fb_round_)},
                               {"length_s", (now - round_began_).seconds()},
                               {"reports", static_cast<double>(reports_)},
                               {"x", rate_.bytes_per_second()},
                               {"r_max", max_rtt_.seconds()}};
  sink.trace("tfmcc.round", fields);
  begin_round(now);
}

void Sender::timer(Time now, Sink& sink) {
  now = advance(now);
  if (!running_) return;
  if (now >= halve_at_) check_silence(now, sink);
  if (now >= round_ends_) {
    // T; without feedback of others until the first one comes, but 2T at most.
    if (others_heard_ || overtime_) {
      end_round(now, sink);
    } else {
      overtime_ = true;
      round_ends_ = std::max(now, round_began_ + (round_ends_ - round_began_) * 2);
    }
  }
}

// RFC 4654, 3.5: no report of the CLR, or without one no report at all.
void Sender::check_silence(Time now, Sink& sink) {
  const bool fresh = clr_valid_ && now - clr_chosen_at_ < patience() * settings_.clr_timeout;
  if (clr_valid_ && now - clr_heard_at_ >= patience() * settings_.clr_timeout) {
    lose_clr(now, Reason::kSilent, sink);
  }
  if (!fresh) set_rate(rate_ * 0.5, sink);
  halve_at_ = now + (clr_valid_ ? patience() * settings_.halve_after : round_length() * 2);
}

void Sender::lose_clr(Time now, Reason reason, Sink& sink) {
  clr_valid_ = false;
  begin_round(now);  // asks everybody
  halve_at_ = now + round_length() * 2;
  trace_clr(reason, sink);
}

void Sender::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = advance(now);
  wire::TfmccFeedback feedback;
  if (wire::parse(arrival.message, feedback) != wire::Error::kOk ||
      feedback.session != config_.session) {
    ++invalid_;
    return;
  }
  if (!running_) return;
  if (feedback.kind == wire::TfmccFeedback::Kind::kLeave) {
    if (clr_valid_ && feedback.source == clr_) lose_clr(now, Reason::kLeft, sink);
    return;
  }
  const Duration sample =
      Duration::microseconds(wire::clock_us(now) - feedback.echo_time_us - feedback.echo_hold_us);
  if (sample > kMaxRtt) {  // of a packet that was not sent, or long ago
    ++invalid_;
    return;
  }
  take_report(now, feedback, std::max(sample, kMinRtt), sink);
}

void Sender::take_report(Time now, const wire::TfmccFeedback& feedback, Duration sample,
                         Sink& sink) {
  ++reports_;
  peak_rtt_ = std::max(peak_rtt_, sample);
  max_rtt_ = std::max(max_rtt_, sample);
  Rate rate = Rate::bytes_per_second(feedback.rate);
  // RFC 4654, 3.3: a rate computed with R_max instead of the receiver's RTT is corrected with ours.
  if (feedback.have_loss && !feedback.have_rtt && feedback.rtt_us > 0) {
    rate = rate * (feedback.rtt_us * 1e-6 / sample.seconds());
  }
  const bool from_clr = clr_valid_ && feedback.source == clr_;
  Urgency urgency = Urgency::kClr;
  if (!from_clr) {
    others_heard_ = true;
    urgency = feedback.have_rtt ? Urgency::kMeasured : Urgency::kUnmeasured;
    if (feedback.fb_round == fb_round_) {
      std::uint32_t& lowest = feedback.have_rtt ? supp_rate_ : supp_rate_blind_;
      lowest = std::min(lowest, feedback.rate);
    }
  }
  if (feedback.have_loss) slow_start_ = false;
  // In slow start X rises towards the CLR's rate, and it is that one that must not be exceeded.
  const Rate limit = slow_start_ ? std::max(rate_, clr_rate_) : rate_;
  if (from_clr || !clr_valid_ || rate < limit) {
    const Reason reason = clr_valid_ ? Reason::kSlower : Reason::kNoClr;
    if (!from_clr) {
      clr_valid_ = true;
      clr_ = feedback.source;
      clr_chosen_at_ = now;
      urgency = Urgency::kNewClr;
    }
    clr_rate_ = rate;
    clr_rtt_ = sample;
    clr_heard_at_ = now;
    halve_at_ = now + patience() * settings_.halve_after;
    follow(now, rate, sink);
    if (!from_clr) trace_clr(reason, sink);
  }
  offer_echo(now, feedback, urgency);
  if (overtime_ && others_heard_) end_round(now, sink);
}

// RFC 4654, 3.3 and 3.6: down at once; up by a packet per R_max every R_max, in slow start to the
// CLR's rate within a round-trip time.
void Sender::follow(Time now, Rate wanted, Sink& sink) {
  const double elapsed = std::clamp((now - raised_at_) / max_rtt_, 0.0, 1.0);
  raised_at_ = now;
  const Rate step =
      slow_start_ ? (wanted - rate_) * elapsed
                  : Rate::bytes_per_second(config_.packet_size / max_rtt_.seconds()) * elapsed;
  set_rate(std::min(wanted, rate_ + std::max(step, Rate::zero())), sink);
  const TraceField fields[] = {
      {"x", rate_.bytes_per_second()},    {"x_r", wanted.bytes_per_second()},
      {"clr", static_cast<double>(clr_)}, {"rtt_us", clr_rtt_.seconds() * 1e6},
      {"r_max", max_rtt_.seconds()},      {"slow_start", slow_start_ ? 1.0 : 0.0}};
  sink.trace("tfmcc.rate", fields);
}

// RFC 4654, 2.2.1: one echo a packet; the most urgent first, and of equal ones the lowest rate.
void Sender::offer_echo(Time now, const wire::TfmccFeedback& feedback, Urgency urgency) {
  if (urgency < echo_.urgency || (urgency == echo_.urgency && feedback.rate >= echo_.rate)) return;
  echo_ = {urgency, feedback.source, feedback.rate, feedback.time_us, now};
}

void Sender::trace_clr(Reason reason, Sink& sink) const {
  const TraceField fields[] = {
      {"clr", static_cast<double>(clr_)},      {"valid", clr_valid_ ? 1.0 : 0.0},
      {"reason", static_cast<double>(reason)}, {"x_r", clr_rate_.bytes_per_second()},
      {"x", rate_.bytes_per_second()},         {"rtt_us", clr_rtt_.seconds() * 1e6}};
  sink.trace("tfmcc.clr", fields);
}

}  // namespace tiercast::tfmcc
