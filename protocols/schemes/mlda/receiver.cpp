#include "protocols/schemes/mlda/receiver.h"

#include <algorithm>
#include <limits>

#include "protocols/common/exponential_timer.h"
#include "protocols/wire/quantities.h"

namespace tiercast::mlda {
namespace {

// Reports are seconds apart; one further behind than this comes from a restarted sender.
constexpr std::int32_t kMaxReportsBehind = 4;
// The estimate must not run ahead of what traffic has tested (PROTOCOLS 7.5).
constexpr double kMinTested = 0.5;  // of the received rate
constexpr double kMaxTested = 1.2;
constexpr double kMaxTestedAtTop = 1.5;

}  // namespace

Receiver::Receiver(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      subintervals_(settings_.min_rate, settings_.max_rate, settings_.rho),
      rng_(config.seed),
      reception_(settings_.observation),
      lda_(settings_.initial_increase),
      pairs_(settings_.pair_samples, settings_.pair_cluster),
      rtt_(settings_.rtt_weight, settings_.delay_weight) {}

void Receiver::start(Time now, Sink& sink) {
  now_ = now;
  change_top(0, sink);
}

void Receiver::stop(Time, Sink& sink) {
  deadline_ = cycle_timeout_ = Time::never();
  change_top(-1, sink);
}

void Receiver::change_top(int top, Sink& sink) {
  if (top != reception_.top()) reception_.subscribe(top, sink);
}

void Receiver::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = now_ = std::max(now_, now);
  wire::MldaData data;
  wire::MldaSenderReport report;
  wire::MldaReflection reflection;
  if (wire::parse(arrival.message, data) == wire::Error::kOk && data.session == config_.session &&
      data.rank < config_.layers) {
    receive_data(now, data, arrival);
  } else if (wire::parse(arrival.message, report) == wire::Error::kOk &&
             report.session == config_.session && report.record_count <= config_.layers) {
    receive_report(now, report, sink);
  } else if (wire::parse(arrival.message, reflection) == wire::Error::kOk &&
             reflection.session == config_.session) {
    receive_reflection(now, reflection, sink);
  } else {
    reception_.refuse();
  }
}

void Receiver::receive_data(Time now, const wire::MldaData& data, const Arrival& arrival) {
  if (data.rank > reception_.top()) return;  // it may still arrive after a leave
  const GapDetector::Packet packet = reception_.receive(now, data.rank, data.seq, arrival);
  if (packet.order == GapDetector::Order::kStray) return;
  if (packet.order == GapDetector::Order::kRestart) {
    // Its clock is another one, and the echo that may still come is of the old one.
    rtt_.reset();
    echo_awaited_ = false;
  }
  ++window_.packets;
  window_.bytes += arrival.ip_length;
  window_.lost += packet.lost;
  window_.marked += arrival.ce && settings_.ecn ? 1 : 0;
  rtt_.packet(wire::clock_us(now) - data.tx_time_us);
  if (data.rank == 0) pairs_.receive(now, data.seq, data.pair, arrival.ip_length);
}

void Receiver::receive_report(Time now, const wire::MldaSenderReport& report, Sink& sink) {
  const std::int32_t ahead = serial_difference(report.sr_seq, sr_seq_);
  if (!reception_.joined() || (report_seen_ && ahead <= 0 && ahead >= -kMaxReportsBehind)) return;
  report_seen_ = true;
  sr_seq_ = report.sr_seq;
  session_rtt_us_ = report.max_rtt_us;
  layering_ = {};
  layering_.count = report.record_count;
  for (unsigned k = 0; k < layering_.count; ++k) {
    layering_.rate[k] = Rate::bytes_per_second(report.rate[k]);
  }
  // Leave layers that are no longer sent.
  change_top(std::min(reception_.top(), static_cast<int>(layering_.count) - 1), sink);
  begin_cycle(now);
}

// MLDA III-B: losses are observed for T_o times the number of layers.
void Receiver::begin_cycle(Time now) {
  cycle_began_ = now;
  cycle_timeout_ = now + settings_.control_interval * settings_.sigma;  // MLDA III-E
  adapted_ = false;
  max_rate_ = 0;
  phase_ = Phase::kObserving;
  window_ = {};
  window_.since = now;
  deadline_ = now + settings_.observation * joined();
}

void Receiver::timer(Time now, Sink& sink) {
  now = now_ = std::max(now_, now);
  if (now >= deadline_) {
    if (phase_ == Phase::kObserving) {
      end_observation(now, sink);
    } else {
      send_report(now, sink);
    }
  }
  if (now >= cycle_timeout_) begin_cycle(now);
}

// Receivers with x layers may join the next one only at the end of a period, all at the same time
// (MLDA III-D).
void Receiver::end_observation(Time now, Sink& sink) {
  if (window_.packets + window_.lost > 0) {
    estimate(now, sink);
    const Rate share = Rate::bytes_per_second(share_);
    if (joined() < std::min(layering_.count, settings_.max_layers) &&
        share >= layering_.cumulative(joined() + 1)) {
      change_top(reception_.top() + 1, sink);
      window_ = {};
      window_.since = now;
      deadline_ = cycle_began_ + settings_.observation * joined();
      if (deadline_ > now) return;
    } else {
      int top = reception_.top();
      while (top > 0 && share < layering_.cumulative(static_cast<unsigned>(top) + 1)) --top;
      change_top(top, sink);
    }
  }
  schedule_report(now);
}

void Receiver::estimate(Time now, Sink& sink) {
  const double elapsed = std::max((now - window_.since).seconds(), 1e-3);
  const double received = static_cast<double>(window_.bytes) / elapsed;
  loss_ = static_cast<double>(window_.lost + window_.marked) /
          static_cast<double>(window_.packets + window_.lost);
  max_rate_ = std::max(max_rate_, received);
  const unsigned x = joined();
  const bool at_top = x >= layering_.count;
  const double next =
      at_top ? kMaxTestedAtTop * received : layering_.cumulative(x + 1).bytes_per_second();
  const double previous =
      share_ > 0 ? std::clamp(share_, kMinTested * received, std::max(next, kMaxTested * received))
                 : received;
  LdaPlus::Path path;
  path.loss = loss_;
  path.rtt = round_trip();
  const double pair = pairs_.estimate().bytes_per_second();
  path.bottleneck = pair > 0 ? Rate::bytes_per_second(std::max(pair, max_rate_))
                             : Rate::bytes_per_second(std::numeric_limits<double>::infinity());
  path.packet_size = config_.packet_size;
  path.interval = adapted_ ? settings_.observation : settings_.control_interval;
  const Rate adapted = lda_.adapt(Rate::bytes_per_second(previous), path);
  share_ = std::clamp(adapted, settings_.min_rate, settings_.max_rate).bytes_per_second();
  adapted_ = true;
  const TraceField fields[] = {{"sr_seq", static_cast<double>(sr_seq_)},
                               {"x", static_cast<double>(x)},
                               {"l", loss_},
                               {"rtt_us", path.rtt.seconds() * 1e6},
                               {"R_Bps", pair > 0 ? path.bottleneck.bytes_per_second() : 0},
                               {"received_Bps", received},
                               {"r_before_Bps", previous},
                               {"r_j_Bps", share_},
                               {"A_add_Bps", lda_.increase().bytes_per_second()},
                               {"C_x_Bps", layering_.cumulative(x).bytes_per_second()},
                               {"C_next_Bps", at_top ? 0 : next}};
  sink.trace("mlda.estimate", fields);
}

// A receiver that has not measured its own RTT uses the session's largest one, and so asks for less
// rather than more.
Duration Receiver::round_trip() const {
  if (rtt_.valid()) return rtt_.rtt();
  if (session_rtt_us_ > 0) {
    return std::clamp(Duration::microseconds(session_rtt_us_), kMinRtt, kMaxRtt);
  }
  return settings_.initial_rtt;
}

bool Receiver::asks_rtt(Time now) const {
  return !rtt_.valid() || now - rtt_.measured_at() > settings_.rtt_interval;
}

// MLDA III-C and (2).
void Receiver::schedule_report(Time now) {
  if (!(share_ > 0)) {
    phase_ = Phase::kIdle;
    deadline_ = Time::never();
    return;
  }
  phase_ = Phase::kReporting;
  deadline_ =
      now + exponential_wait(settings_.report_spread, settings_.report_lambda, rng_.uniform());
}

void Receiver::send_report(Time now, Sink& sink) {
  phase_ = Phase::kIdle;
  deadline_ = Time::never();
  wire::MldaReceiverReport report;
  report.session = config_.session;
  report.rank = static_cast<std::uint8_t>(reception_.top());
  report.asks_rtt = asks_rtt(now);
  report.source = config_.self_id;
  report.sr_seq = sr_seq_;
  report.rate = wire::to_u32(share_);
  report.loss = wire::to_u32(loss_ * 4294967295.0);
  report.rtt_us = rtt_.valid() ? std::max(1u, wire::to_u32(rtt_.rtt())) : 0;
  report.rx_time_us = sent_us_ = wire::clock_us(now);
  echo_awaited_ = true;
  std::array<std::byte, wire::MldaReceiverReport::kBytes> message;
  sink.send(Destination::sender(), {message.data(), wire::write(report, message)});
  const TraceField fields[] = {
      {"sr_seq", static_cast<double>(sr_seq_)}, {"r_j_Bps", share_}, {"suppressed_by", 0}};
  sink.trace("mlda.report", fields);
}

void Receiver::receive_reflection(Time now, const wire::MldaReflection& reflection, Sink& sink) {
  if (reflection.source == config_.self_id) {
    if (!echo_awaited_ || reflection.rx_time_us != sent_us_) return;
    echo_awaited_ = false;
    rtt_.measured(now, Duration::microseconds(wire::clock_us(now) - sent_us_),
                  wire::clock_us(now) - reflection.tx_time_us);
    return;
  }
  // MLDA III-C, partial suppression. A receiver that wants its RTT measured is silenced only by
  // others that want the same. So each event measures somebody, and yet few answer.
  const bool similar = phase_ == Phase::kReporting &&
                       serial_difference(reflection.sr_seq, sr_seq_) >= 0 &&
                       subintervals_.of(Rate::bytes_per_second(reflection.rate)) ==
                           subintervals_.of(Rate::bytes_per_second(share_)) &&
                       (reflection.asks_rtt || !asks_rtt(now));
  if (!similar) return;
  phase_ = Phase::kIdle;
  deadline_ = Time::never();
  const TraceField fields[] = {{"sr_seq", static_cast<double>(sr_seq_)},
                               {"r_j_Bps", share_},
                               {"suppressed_by", static_cast<double>(reflection.source)}};
  sink.trace("mlda.report", fields);
}

}  // namespace tiercast::mlda
