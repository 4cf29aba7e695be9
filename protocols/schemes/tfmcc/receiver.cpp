#include "protocols/schemes/tfmcc/receiver.h"

#include <algorithm>
#include <array>

#include "protocols/common/tcp_equation.h"
#include "protocols/schemes/tfmcc/feedback_timer.h"
#include "protocols/wire/quantities.h"

namespace tiercast::tfmcc {

Receiver::Receiver(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      rng_(config.seed ^ (static_cast<std::uint64_t>(config.self_id) << 32)),
      history_({.later_packets = settings_.later_packets,
                .discount_floor = settings_.discount_threshold}) {}

void Receiver::start(Time now, Sink& sink) {
  now_ = now;
  reception_.subscribe(0, sink);
}

// RFC 4654, 4.2. A host that stops has no feedback round left to say so in: one report must do.
void Receiver::stop(Time now, Sink& sink) {
  if (!reception_.joined()) return;
  now_ = std::max(now_, now);
  if (is_clr_) report(now_, true, sink);
  report_pending_ = false;
  is_clr_ = false;
  reception_.subscribe(-1, sink);
}

ReceiverCounters Receiver::counters() const {
  ReceiverCounters counters = reception_.counters();
  counters.rate = received();
  return counters;
}

void Receiver::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = now_ = std::max(now_, now);
  wire::TfmccData data;
  if (wire::parse(arrival.message, data) != wire::Error::kOk || data.session != config_.session) {
    reception_.refuse();
    return;
  }
  const GapDetector::Order order = gaps_.receive(data.seq).order;
  if (order == GapDetector::Order::kStray) {
    reception_.refuse();
    return;
  }
  if (order == GapDetector::Order::kRestart) forget_sender();
  const bool first_packet = reception_.packets() == 0;
  const bool newest = order != GapDetector::Order::kLate;
  const bool new_round = first_packet || (newest && data.fb_round != latest_.fb_round);
  if (!first_packet) after_gap(now - latest_at_);
  if (newest) {
    latest_ = data;
    latest_at_ = now;
  }

  reception_.count(arrival);
  received_.add(now, arrival.ip_length, rtt());
  learn_clr(data);
  measure_rtt(now, data, newest);
  update_losses(now, arrival, data.seq);

  // RFC 4654, 4.5.
  if (is_clr_) {
    report_pending_ = false;
    if (now >= clr_report_due_) report(now, false, sink);
    return;
  }
  if (new_round) begin_round(now);
  if (report_pending_ && suppressed()) report_pending_ = false;
}

// The losses were in another sequence of packets, and D_r is of another clock.
void Receiver::forget_sender() {
  have_rtt_ = false;
  history_.reset();
  have_loss_ = false;
  first_interval_ = 0;
}

// RFC 4654, 4.3.1 and 4.5. R_max is at least a packet's interval, so that a low rate is no gap.
void Receiver::after_gap(Duration gap) {
  if (gap <= max_rtt()) return;
  round_began_ = round_began_ + (gap - max_rtt());
  if (gap > max_rtt() * settings_.silence) have_loss_ = false;
}

void Receiver::learn_clr(const wire::TfmccData& data) {
  if (data.echo_valid && data.is_clr) is_clr_ = data.echo_source == config_.self_id;
}

void Receiver::measure_rtt(Time now, const wire::TfmccData& data, bool newest) {
  if (data.echo_valid && data.echo_source == config_.self_id) {  // RFC 4654, 4.3.2
    const Duration sample = Duration::microseconds(wire::clock_us(now) - data.echo_time_us);
    if (sample > kMaxRtt) return;  // forged, or of long ago
    const double q = data.is_clr ? settings_.rtt_filter_clr : settings_.rtt_filter;
    const Duration measured = std::max(sample, kMinRtt);
    smoothed_rtt_ = have_rtt_ ? smoothed_rtt_ * q + measured * (1 - q) : measured;
    adjusted_rtt_ = smoothed_rtt_;
    // The RFC prints the difference the other way round, which would not give a round trip.
    return_delay_ = data.tx_time_us - data.echo_time_us;
    if (!have_rtt_ && first_interval_ > 0) {  // RFC 4654, 5.6
      const double ratio = measured / first_interval_rtt_;
      history_.set_first_interval(first_interval_ * ratio * ratio);
    }
    have_rtt_ = true;
  } else if (have_rtt_ && newest) {  // RFC 4654, 4.3.3
    const std::uint32_t us = return_delay_ + wire::clock_us(now) - data.tx_time_us;
    const Duration adjusted = Duration::microseconds(static_cast<std::int32_t>(us));
    if (adjusted <= kMaxRtt) adjusted_rtt_ = std::max(adjusted, kMinRtt);
  }
}

// RFC 4654, 4.3.1.
void Receiver::update_losses(Time now, const Arrival& arrival, std::uint32_t seq) {
  const LossHistory::Report loss = history_.receive(now, seq, settings_.ecn && arrival.ce, rtt());
  reception_.lose(loss.lost);
  if (loss.events > 0) have_loss_ = true;
  if (loss.first) begin_loss_history();
}

// RFC 4654, 5.6.
void Receiver::begin_loss_history() {
  const double bytes = received_.over(rtt()).bytes_per_second() * rtt().seconds();
  const double packets = bytes / config_.packet_size;
  first_interval_ = packets * packets / 1.5;
  first_interval_rtt_ = rtt();
  if (first_interval_ > 0) history_.set_first_interval(first_interval_);
}

Duration Receiver::rtt() const { return have_rtt_ ? adjusted_rtt_ : max_rtt(); }

Duration Receiver::max_rtt() const {
  return std::clamp(Duration::microseconds(latest_.max_rtt_us), kMinRtt, kMaxRtt);
}

Rate Receiver::received() const { return received_.over(rtt() * settings_.receive_rtts); }

// RFC 4654, 4.4; equation (1) is tcp_throughput() with T0 = 4R, b = 1 and no bound of its
// time-outs.
Rate Receiver::desired_rate() const {
  if (!have_loss_) return received() * settings_.slow_start_factor;
  const TcpPath path{.packet_size = static_cast<double>(config_.packet_size),
                     .rtt = rtt(),
                     .timeout = rtt() * 4,
                     .clamp = false};
  return tcp_throughput(path, history_.loss_event_rate());
}

// RFC 4654, 4.5. A new round cancels what was left of the old one.
void Receiver::begin_round(Time now) {
  round_began_ = now;
  wait_ = feedback_wait(settings_.group_size, 1 - rng_.uniform());
  at_round_start_ = desired_rate();
  report_pending_ = true;
}

// In proportion to R_max while that changes.
Time Receiver::report_due() const {
  return round_began_ + max_rtt() * settings_.round_rtts * wait_;
}

// The timer stands still when R_max has passed without data: after_gap() makes up for it.
Time Receiver::next_timer() const {
  if (!report_pending_) return Time::never();
  const Time due = report_due();
  return due <= latest_at_ + max_rtt() ? due : Time::never();
}

bool Receiver::suppressed() const {
  if (latest_.supp_rate == wire::TfmccData::kNoRate || rtt() > max_rtt()) return false;
  return latest_.supp_rate < std::max(desired_rate(), at_round_start_).bytes_per_second();
}

void Receiver::timer(Time now, Sink& sink) {
  now = now_ = std::max(now_, now);
  if (now < next_timer()) return;
  report_pending_ = false;
  // Without a loss and a received rate there is nothing to say yet.
  if (have_loss_ || received_.measured()) report(now, false, sink);
}

// RFC 4654, 2.2.2.
void Receiver::report(Time now, bool leave, Sink& sink) {
  // Once per RTT on average, though it is sent when a packet arrives.
  clr_report_due_ = (now - clr_report_due_ < rtt() ? clr_report_due_ : now) + rtt();
  wire::TfmccFeedback feedback;
  feedback.session = config_.session;
  feedback.have_rtt = have_rtt_;
  feedback.have_loss = have_loss_;
  feedback.leave = leave;
  feedback.source = config_.self_id;
  feedback.fb_round = latest_.fb_round;
  feedback.rate = wire::to_u32(desired_rate());
  feedback.time_us = wire::clock_us(now);
  feedback.echo_time_us = latest_.tx_time_us + feedback.time_us - wire::clock_us(latest_at_);
  std::array<std::byte, wire::TfmccFeedback::kBytes> message;
  sink.send(Destination::sender(), {message.data(), wire::write(feedback, message)});
  const TraceField fields[] = {{"x_r_Bps", desired_rate().bytes_per_second()},
                               {"p", history_.loss_event_rate()},
                               {"events", static_cast<double>(history_.events())},
                               {"rtt_us", rtt().seconds() * 1e6},
                               {"have_rtt", have_rtt_ ? 1.0 : 0.0},
                               {"x_recv_Bps", received().bytes_per_second()},
                               {"clr", is_clr_ ? 1.0 : 0.0},
                               {"round", static_cast<double>(latest_.fb_round)}};
  sink.trace("tfmcc.report", fields);
}

}  // namespace tiercast::tfmcc
