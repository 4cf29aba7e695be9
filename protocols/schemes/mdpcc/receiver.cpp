#include "protocols/schemes/mdpcc/receiver.h"

#include <algorithm>
#include <cmath>

#include "protocols/base/serial.h"
#include "protocols/common/exponential_timer.h"
#include "protocols/wire/quantities.h"

namespace tiercast::mdpcc {
namespace {

constexpr unsigned kPacketsPerSample = 4;  // PROTOCOLS 6.4
// A probe number further behind than this comes from a restarted sender.
constexpr std::int16_t kMaxProbesBehind = 64;

}  // namespace

Receiver::Receiver(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      rng_(config.seed),
      losses_({.later_packets = settings_.reorder + 1}),
      object_(settings_.max_segments, rng_.next()),
      grtt_(settings_.initial_grtt),
      backoff_(settings_.backoff),
      group_size_(settings_.group_size) {}

void Receiver::start(Time now, Sink& sink) {
  now_ = now;
  reception_.subscribe(0, sink);
}

void Receiver::stop(Time now, Sink& sink) {
  if (!reception_.joined()) return;
  now = now_ = std::max(now_, now);
  if (probe_seen_) send_report(now, wire::kMdpccLeave, sink);
  report_at_ = Time::never();
  reception_.subscribe(-1, sink);
}

ReceiverCounters Receiver::counters() const {
  ReceiverCounters counters = reception_.counters();
  counters.rate = received_rate_;
  counters.delivered = object_.delivered();
  counters.complete = object_.complete();
  return counters;
}

void Receiver::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = now_ = std::max(now_, now);
  if (!reception_.joined()) return;
  wire::MdpccData data;
  wire::MdpccProbe probe;
  wire::MdpccReport report;
  wire::MdpccNack nack;
  if (wire::parse(arrival.message, data) == wire::Error::kOk && data.session == config_.session) {
    take(now, data, arrival, sink);
  } else if (wire::parse(arrival.message, probe) == wire::Error::kOk &&
             probe.session == config_.session) {
    take(now, probe, sink);
  } else if (wire::parse(arrival.message, report) == wire::Error::kOk && report.reflected &&
             report.session == config_.session) {
    take(now, report, sink);
  } else if (wire::parse(arrival.message, nack) == wire::Error::kOk && nack.reflected &&
             nack.session == config_.session) {
    if (nack.source != config_.self_id) object_.heard(nack);
  } else {
    reception_.refuse();
  }
}

void Receiver::take(Time now, const wire::MdpccData& data, const Arrival& arrival, Sink& sink) {
  const auto payload = arrival.message.subspan(wire::MdpccData::kBytes);
  const bool complete = object_.complete();
  if (data.segment_count > 0 && !object_.data(now, data, payload, timing(), sink)) {
    reception_.refuse();
    return;
  }
  reception_.count(arrival);
  // A stray packet says nothing of the path, but its segment is welcome.
  const GapDetector::Order order = gaps_.receive(data.seq).order;
  if (order == GapDetector::Order::kRestart) losses_.reset();
  if (order != GapDetector::Order::kStray) measure_path(now, data.seq, arrival, sink);
  if (object_.complete() && !complete) {
    const TraceField fields[] = {{"bytes", static_cast<double>(object_.delivered())}};
    sink.trace("mdpcc.complete", fields);
  }
}

void Receiver::measure_path(Time now, std::uint32_t seq, const Arrival& arrival, Sink& sink) {
  const LossHistory::Report loss = losses_.receive(now, seq, arrival.ce && settings_.ecn, rtt());
  reception_.lose(loss.lost);
  measure_rate(now, arrival.ip_length);
  if (loss.first) begin_loss_history();
  if (loss.events == 0) return;
  const TraceField fields[] = {{"events", static_cast<double>(loss.events)},
                               {"lost", static_cast<double>(loss.lost)},
                               {"marked", arrival.ce ? 1.0 : 0.0},
                               {"loss", losses_.loss_event_rate()}};
  sink.trace("mdpcc.loss_event", fields);
  // Representatives report a loss event at once (PROTOCOLS 6.4).
  if (representative_ && probe_seen_) {
    send_report(now, wire::kMdpccEvent, sink);
  } else if (phase_ == Phase::kHoldoff && desired_rate() < tx_rate_) {
    // If the path has become worse than the others, do not stay silent for the rest of the pause.
    // Otherwise the worst path would be found K GRTTs later.
    back_off(now);
  }
}

void Receiver::measure_rate(Time now, std::uint32_t bytes) {
  if (!receiving_) {
    receiving_ = true;
    sample_since_ = now;
    return;
  }
  sample_bytes_ += bytes;
  ++sample_packets_;
  const Duration lasted = now - sample_since_;
  if (sample_packets_ < kPacketsPerSample || lasted < rtt() || lasted <= Duration::zero()) return;
  received_rate_ = Rate::bytes_per_second(static_cast<double>(sample_bytes_) / lasted.seconds());
  sample_since_ = now;
  sample_bytes_ = 0;
  sample_packets_ = 0;
}

// PROTOCOLS 1.3: the interval that ended with the first loss is set to what TCP would have at the
// rate that got through, but not to less than was seen of it (0.3).
void Receiver::begin_loss_history() {
  if (received_rate_ <= Rate::zero()) return;
  const TcpPath path = settings_.path(config_.packet_size, rtt(), rtt() * 4);
  losses_.set_first_interval(
      std::max(losses_.counted_first_interval(), 1 / tcp_loss_event_rate(path, received_rate_)));
}

Rate Receiver::desired_rate() const {
  const double p = losses_.loss_event_rate();
  if (p > 0) return tcp_throughput(settings_.path(config_.packet_size, rtt(), rtt() * 4), p);
  // Nothing has been measured yet, so there is no reason against the present rate.
  return received_rate_ > Rate::zero() ? received_rate_ * 2 : tx_rate_;
}

void Receiver::take(Time now, const wire::MdpccProbe& probe, Sink& sink) {
  const std::int16_t ahead = serial_difference(probe.probe_seq, probe_seq_);
  if (probe_seen_ && ahead <= 0 && ahead > -kMaxProbesBehind) return;
  probe_seen_ = true;
  probe_seq_ = probe.probe_seq;
  probe_tx_us_ = probe.tx_time_us;
  probe_at_ = now;
  grtt_ = std::clamp(Duration::microseconds(probe.grtt_us), kMinGrtt, kMaxGrtt);
  tx_rate_ = Rate::bytes_per_second(probe.tx_rate);
  backoff_ = std::clamp<unsigned>(probe.backoff, 1, kMaxBackoff);
  group_size_ = std::max<unsigned>(1, probe.group_size);
  representative_ = clr_ = false;
  for (std::size_t i = 0; i < probe.record_count; ++i) {
    const wire::MdpccRepresentative& r = probe.representatives[i];
    if (r.receiver != config_.self_id) continue;
    representative_ = true;
    clr_ = (r.flags & wire::kMdpccClr) != 0;
    rtt_confirmed_ = true;
    rtt_ = std::max(Duration::microseconds(r.rtt_us), kMinRtt);
  }
  object_.progress(now, probe, timing());
  if (representative_) {
    phase_ = Phase::kIdle;
    report_at_ = Time::never();
    send_report(now, 0, sink);
    return;
  }
  if (phase_ != Phase::kIdle) {
    report_at_ = std::min(report_at_, now + grtt_ * backoff_);  // the GRTT may have fallen
    return;
  }
  back_off(now);
}

// PROTOCOLS 6.4: the lower the rate, the earlier the report.
void Receiver::back_off(Time now) {
  const double share = tx_rate_ > Rate::zero()
                           ? (losses_.events() > 0 ? desired_rate() : received_rate_) / tx_rate_
                           : 1;
  const double r = (std::clamp(share, 0.5, 0.9) - 0.5) / 0.4;
  const Duration longest = grtt_ * backoff_;
  phase_ = Phase::kBackoff;
  report_at_ =
      now + longest * (0.25 * r) +
      exponential_wait(longest, std::log(static_cast<double>(group_size_)) + 1, rng_.uniform()) *
          0.75;
}

// Another receiver's report, reflected. Reports of representatives are not reflected.
void Receiver::take(Time now, const wire::MdpccReport& report, Sink& sink) {
  if (phase_ != Phase::kBackoff || report.source == config_.self_id) return;
  const bool confirmed = (report.flags & wire::kMdpccRtt) != 0;
  if (!rtt_confirmed_ && confirmed) return;
  if (desired_rate().bytes_per_second() <= 0.9 * report.rate) return;
  phase_ = Phase::kHoldoff;
  report_at_ = now + grtt_ * backoff_;
  const TraceField fields[] = {{"by", static_cast<double>(report.source)}};
  sink.trace("mdpcc.report_suppressed", fields);
}

void Receiver::timer(Time now, Sink& sink) {
  now = now_ = std::max(now_, now);
  if (!reception_.joined()) return;
  if (now >= report_at_) {
    if (phase_ == Phase::kBackoff) {
      send_report(now, 0, sink);
      phase_ = Phase::kHoldoff;
      report_at_ = now + grtt_ * backoff_;
    } else {
      phase_ = Phase::kIdle;  // until the next probe
      report_at_ = Time::never();
    }
  }
  if (now >= object_.next_timer()) ask_for_repair(now, sink);
}

void Receiver::ask_for_repair(Time now, Sink& sink) {
  wire::MdpccNack nack;
  switch (object_.timer(now, timing(), nack)) {
    case ObjectReceiver::Asking::kNothing: return;
    case ObjectReceiver::Asking::kSuppressed: {
      const TraceField fields[] = {{"missing", static_cast<double>(object_.missing())}};
      sink.trace("mdpcc.nack_suppressed", fields);
      return;
    }
    case ObjectReceiver::Asking::kNack: break;
  }
  nack.session = config_.session;
  nack.source = config_.self_id;
  std::array<std::byte, wire::MdpccNack::kMaxBytes> message;
  sink.send(Destination::sender(), {message.data(), wire::write(nack, message)});
  const TraceField fields[] = {{"ranges", static_cast<double>(nack.record_count)},
                               {"missing", static_cast<double>(object_.missing())},
                               {"delivered", static_cast<double>(object_.delivered())}};
  sink.trace("mdpcc.nack", fields);
}

void Receiver::send_report(Time now, std::uint8_t more_flags, Sink& sink) {
  wire::MdpccReport report;
  report.session = config_.session;
  report.source = config_.self_id;
  report.probe_seq = probe_seq_;
  report.response_us = probe_tx_us_ + static_cast<std::uint32_t>((now - probe_at_).us());
  const double p = losses_.loss_event_rate();
  report.loss = static_cast<std::uint32_t>(std::ceil(p * 4294967295.0));
  report.rate = std::max<std::uint32_t>(1, wire::to_u32(desired_rate()));
  report.received_rate = wire::to_u32(received_rate_);
  report.rtt_us = wire::to_u32(rtt());
  report.flags = static_cast<std::uint8_t>(more_flags | (rtt_confirmed_ ? wire::kMdpccRtt : 0) |
                                           (p > 0 ? 0 : wire::kMdpccStart));
  std::array<std::byte, wire::MdpccReport::kBytes> message;
  sink.send(Destination::sender(), {message.data(), wire::write(report, message)});
  const TraceField fields[] = {{"probe_seq", static_cast<double>(report.probe_seq)},
                               {"clr", clr_ ? 1.0 : 0.0},
                               {"flags", static_cast<double>(report.flags)},
                               {"loss", p},
                               {"rate_Bps", static_cast<double>(report.rate)},
                               {"received_Bps", received_rate_.bytes_per_second()},
                               {"rtt_us", static_cast<double>(report.rtt_us)}};
  sink.trace("mdpcc.report", fields);
}

}  // namespace tiercast::mdpcc
