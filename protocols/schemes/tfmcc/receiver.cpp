#include "protocols/schemes/tfmcc/receiver.h"

#include <algorithm>
#include <array>

#include "protocols/base/serial.h"
#include "protocols/common/gap_detector.h"
#include "protocols/common/tcp_equation.h"
#include "protocols/schemes/tfmcc/feedback_timer.h"
#include "protocols/wire/quantities.h"

namespace tiercast::tfmcc {
namespace {

// PROTOCOLS 8: T0 = 4R, b = 1, the time-out term unbounded.
TcpPath path(double packet_size, Duration rtt) {
  return {.packet_size = packet_size, .rtt = rtt, .timeout = rtt * 4, .clamp = false};
}

}  // namespace

Receiver::Receiver(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      rng_(config.seed ^ (static_cast<std::uint64_t>(config.self_id) << 32)),
      history_({.later_packets = settings_.reorder + 1}) {}

void Receiver::start(Time now, Sink& sink) {
  now_ = now;
  reception_.subscribe(0, sink);
}

void Receiver::stop(Time now, Sink& sink) {
  if (!reception_.joined()) return;
  now_ = std::max(now_, now);
  if (reception_.packets() > 0 && is_clr()) report(now_, wire::TfmccFeedback::Kind::kLeave, sink);
  report_at_ = Time::never();
  reception_.subscribe(-1, sink);
}

ReceiverCounters Receiver::counters() const {
  ReceiverCounters counters = reception_.counters();
  counters.rate = received_.rate();
  return counters;
}

Duration Receiver::rtt() const { return have_rtt() ? rtt_ : max_rtt(); }

Rate Receiver::calculated() const {
  if (have_loss()) {
    return tcp_throughput(path(config_.packet_size, rtt()), history_.loss_event_rate());
  }
  // RFC 4654, 3.6. Until something is measured, the sender's rate is used for the received one.
  const Rate received = received_.valid() ? received_.rate() : Rate::bytes_per_second(latest_.rate);
  return received * settings_.slow_start_factor;
}

void Receiver::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = now_ = std::max(now_, now);
  wire::TfmccData data;
  if (wire::parse(arrival.message, data) != wire::Error::kOk || data.session != config_.session) {
    reception_.refuse();
    return;
  }
  const bool first_packet = reception_.packets() == 0;
  const std::int32_t ahead = serial_difference(data.seq, latest_.seq);
  const bool newest = first_packet || ahead > 0 || ahead < -GapDetector::kMaxLate;
  const bool new_round = first_packet || (newest && data.fb_round != latest_.fb_round);
  if (newest) {
    latest_ = data;
    latest_at_ = now;
  }
  reception_.count(arrival);
  received_.add(now, arrival.ip_length, rtt());
  measure_rtt(now, data);

  const LossHistory::Report loss =
      history_.receive(now, data.seq, settings_.ecn && arrival.ce, rtt());
  reception_.lose(loss.lost);
  if (loss.first) {
    at_first_loss_ = received_.valid() ? received_.rate() : Rate::bytes_per_second(latest_.rate);
    first_interval();
  }

  if (is_clr()) {
    report_at_ = Time::never();
    // RFC 4654, 4.5: once an RTT, and at once at a loss event; never suppressed.
    if (loss.events > 0 || now >= clr_report_at_)
      report(now, wire::TfmccFeedback::Kind::kReport, sink);
  } else if (new_round) {
    begin_round(now);
  } else if (loss.first && latest_.slow_start) {
    // It ends slow start. In the time of a round the rate would double many times more.
    set_timer(now, max_rtt());
  } else if (!report_at_.is_never() && suppressed()) {
    report_at_ = Time::never();
  }
}

// The slow start overshoots by its factor: the first interval is that of half the received rate
// (PROTOCOLS 8).
void Receiver::first_interval() {
  const Rate rate = at_first_loss_ * (1 / settings_.slow_start_factor);
  if (rate <= Rate::zero()) return;
  history_.set_first_interval(1 / tcp_loss_event_rate(path(config_.packet_size, rtt()), rate));
}

// RFC 4654, 4.3: an echo of our own report measures the RTT; between two of them the one-way delay
// moves it, by time stamps whose clocks may differ.
void Receiver::measure_rtt(Time now, const wire::TfmccData& data) {
  const std::uint32_t delay = wire::clock_us(now) - data.tx_time_us;
  if (data.echo_valid && data.echo_source == config_.self_id) {
    const std::uint32_t sample_us = wire::clock_us(now) - data.echo_time_us - data.echo_hold_us;
    const Duration sample = Duration::microseconds(sample_us);
    if (sample > kMaxRtt) return;
    const bool first = !have_rtt();
    const double weight = first ? 1 : is_clr() ? settings_.rtt_weight_clr : settings_.rtt_weight;
    rtt_ = std::max(rtt_ * (1 - weight) + sample * weight, kMinRtt);
    delay_offset_ = sample_us - delay;
    // The first interval was computed with R_max.
    if (first && have_loss()) first_interval();
  } else if (have_rtt()) {
    const auto adjusted = static_cast<std::int32_t>(delay_offset_ + delay);
    const Duration sample = Duration::microseconds(adjusted);
    if (sample < Duration::zero() || sample > kMaxRtt) return;
    rtt_ = std::max(rtt_ * (1 - settings_.delay_weight) + sample * settings_.delay_weight, kMinRtt);
  }
}

Duration Receiver::max_rtt() const {
  return std::clamp(Duration::microseconds(latest_.max_rtt_us), kMinRtt, kMaxRtt);
}

// A new round cancels what was left of the old one.
void Receiver::begin_round(Time now) {
  const Rate sending = Rate::bytes_per_second(std::max(latest_.rate, 1u));
  const Duration packets =
      std::min(sending.time_for(config_.packet_size), kMaxRtt) * (settings_.round_packets + 1);
  set_timer(now, std::max(max_rtt() * settings_.round_rtts, packets));
}

void Receiver::set_timer(Time now, Duration round) {
  at_round_start_ = calculated();
  report_at_ =
      now + biased_wait(round, settings_.group_size, 1 - rng_.uniform(),
                        at_round_start_ / Rate::bytes_per_second(std::max(latest_.rate, 1u)));
}

// Whether somebody with the same knowledge of its RTT has reported about as low a rate. The higher
// of the rates at the round's start and now counts: where all rates fall at once, all would report
// (X_fbr).
bool Receiver::suppressed() const {
  const std::uint32_t lowest = have_rtt() ? latest_.supp_rate : latest_.supp_rate_blind;
  if (lowest == wire::TfmccData::kNoRate) return false;
  return std::max(calculated(), at_round_start_).bytes_per_second() >
         (1 - settings_.suppression) * lowest;
}

void Receiver::timer(Time now, Sink& sink) {
  now = now_ = std::max(now_, now);
  if (now < report_at_) return;
  report_at_ = Time::never();
  // Only receivers that could be the next CLR or need an echo for their RTT; all while none limits.
  const bool slower = calculated() < Rate::bytes_per_second(latest_.rate);
  const bool wanted = slower || !have_rtt() || !latest_.clr_valid || latest_.slow_start;
  if (wanted) report(now, wire::TfmccFeedback::Kind::kReport, sink);
}

void Receiver::report(Time now, wire::TfmccFeedback::Kind kind, Sink& sink) {
  clr_report_at_ = now + rtt();
  const double p = history_.loss_event_rate();
  wire::TfmccFeedback feedback;
  feedback.session = config_.session;
  feedback.kind = kind;
  feedback.have_rtt = have_rtt();
  feedback.have_loss = have_loss();
  feedback.source = config_.self_id;
  feedback.fb_round = latest_.fb_round;
  feedback.rate = wire::to_u32(calculated());
  feedback.time_us = wire::clock_us(now);
  feedback.echo_time_us = latest_.tx_time_us;
  feedback.echo_hold_us = wire::to_u32(now - latest_at_);
  feedback.loss_event_rate = wire::to_u32(p * 4294967295.0);
  feedback.rtt_us = wire::to_u32(rtt());
  std::array<std::byte, wire::TfmccFeedback::kBytes> message;
  sink.send(Destination::sender(), {message.data(), wire::write(feedback, message)});
  const TraceField fields[] = {{"x_r", calculated().bytes_per_second()},
                               {"p", p},
                               {"rtt_us", rtt().seconds() * 1e6},
                               {"have_rtt", have_rtt() ? 1.0 : 0.0},
                               {"x_recv", received_.rate().bytes_per_second()},
                               {"clr", is_clr() ? 1.0 : 0.0},
                               {"round", static_cast<double>(latest_.fb_round)}};
  sink.trace("tfmcc.report", fields);
}

}  // namespace tiercast::tfmcc
