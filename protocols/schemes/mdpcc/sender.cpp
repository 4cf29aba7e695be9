#include "protocols/schemes/mdpcc/sender.h"

#include <algorithm>

#include "protocols/base/rng.h"
#include "protocols/base/serial.h"
#include "protocols/wire/quantities.h"

namespace tiercast::mdpcc {
namespace {

constexpr Duration kFirstIdleInterval = Duration::milliseconds(1000);  // PROTOCOLS 6.3
constexpr Duration kLastIdleInterval = Duration::milliseconds(30'000);
constexpr double kIdleGrowth = 1.5;
// A representative that is silent for this many GRTTs and probes is dropped (PROTOCOLS 6.5).
constexpr unsigned kSilent = 20;

}  // namespace

Sender::Sender(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      object_(config.object,
              config.packet_size - kIpUdpHeaderBytes -
                  static_cast<std::uint32_t>(wire::MdpccData::kBytes),
              settings_.max_segments),
      representatives_(settings_.representatives),
      rate_(settings_, config.packet_size, object_.segment_size()),
      // All numbers start anywhere, so that a restarted sender does not look like the old one.
      object_id_(static_cast<std::uint16_t>(Rng(config.seed).next())),
      seq_(static_cast<std::uint32_t>(Rng(config.seed + 1).next())),
      probe_seq_(static_cast<std::uint16_t>(Rng(config.seed + 2).next())),
      grtt_(settings_.initial_grtt) {}

Time Sender::advance(Time now) { return now_ = std::max(now_, now); }

void Sender::start(Time now, Sink&) {
  now_ = epoch_at_ = reflected_at_ = now;
  idle_interval_ = kFirstIdleInterval;
}

void Sender::stop(Time now, Sink& sink) { membership(now, -1, sink); }

void Sender::membership(Time now, int top_rank, Sink& sink) {
  now = advance(now);
  const bool wanted = top_rank >= 0;
  if (wanted == running_) return;
  running_ = wanted;
  representatives_.clear();
  if (!wanted) {
    probe_at_ = Time::never();
    sink.set_rate(0, Rate::zero());
    return;
  }
  rate_.start(now, grtt_);
  probes_ = 0;
  probe_at_ = now;
  adjust(GoalRate::Reason::kSlowStart, sink);
}

std::size_t Sender::write_data(Time now, Rank layer, std::span<std::byte> message) {
  now = advance(now);
  if (layer != 0 || message.size() < wire::MdpccData::kBytes) return 0;
  wire::MdpccData data;
  data.session = config_.session;
  data.object_id = object_id_;
  data.seq = seq_;
  if (!object_.endless()) {
    if (message.size() < wire::MdpccData::kBytes + object_.segment_size()) return 0;
    const bool repair = object_.repairing();
    const auto segment = object_.take(now);
    if (!segment) return 0;
    repairs_ += repair;
    const auto bytes = object_.segment(*segment);
    data.segment_size = static_cast<std::uint16_t>(object_.segment_size());
    data.segment = *segment;
    data.segment_count = object_.segment_count();
    data.payload_length = static_cast<std::uint16_t>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), message.begin() + wire::MdpccData::kBytes);
  }
  ++seq_;
  data_sent_ = true;
  return wire::write(data, message);
}

void Sender::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = advance(now);
  wire::MdpccReport report;
  wire::MdpccNack nack;
  if (wire::parse(arrival.message, report) == wire::Error::kOk && !report.reflected &&
      report.session == config_.session) {
    take(now, report, sink);
  } else if (wire::parse(arrival.message, nack) == wire::Error::kOk && !nack.reflected &&
             nack.session == config_.session && nack.object_id == object_id_ &&
             !object_.endless()) {
    take(now, nack, sink);
  } else {
    ++invalid_;
  }
}

void Sender::take(Time now, const wire::MdpccReport& report, Sink& sink) {
  // Ignore an answer to a probe that was sent long ago, or was never sent, or an answer from before
  // its probe left.
  const std::uint16_t age = static_cast<std::uint16_t>(probe_seq_ - report.probe_seq);
  const std::int32_t held =
      serial_difference(report.response_us, probe_tx_us_[report.probe_seq % kProbes]);
  const std::int32_t rtt_us = serial_difference(wire::clock_us(now), report.response_us);
  if (serial_newer(report.probe_seq, probe_seq_) || age >= probes_ ||
      (age < kProbes && (held < 0 || rtt_us < 0))) {
    ++implausible_;
    return;
  }
  if (age >= kProbes || Duration::microseconds(rtt_us) > kMaxGrtt) {
    ++invalid_;
    return;
  }
  if (!running_) return;
  ++reports_;
  if ((report.flags & wire::kMdpccLeave) != 0) {
    leave(now, report.source, sink);
    return;
  }
  const Representative* known = representatives_.find(report.source);
  const bool event = (report.flags & wire::kMdpccEvent) != 0;
  if (known != nullptr && !event && !serial_newer(report.probe_seq, known->probe_seq)) return;

  // Reflect the report, so that others who would say the same need not (PROTOCOLS 6.4).
  if (known == nullptr && reflections_ < settings_.max_reflections) {
    ++reflections_;
    wire::MdpccReport reflection = report;
    reflection.reflected = true;
    std::array<std::byte, wire::MdpccReport::kBytes> message;
    sink.send(Destination::group(0), {message.data(), wire::write(reflection, message)});
  }

  const Duration sample = std::max(Duration::microseconds(rtt_us), kMinRtt);
  sample_grtt(sample);
  Representative r;
  if (known != nullptr) r = *known;
  r.id = report.source;
  if (known == nullptr) r.rtt = RttEstimator(settings_.rtt_weight);
  r.rtt.update(sample);
  r.loss = report.loss / 4294967295.0;
  r.start = (report.flags & wire::kMdpccStart) != 0 || report.loss == 0;
  r.rtt_confirmed = (report.flags & wire::kMdpccRtt) != 0;
  r.probe_seq = report.probe_seq;
  r.heard_at = now;
  r.heard_probe = probes_;
  // MDP-CC (1), with the sender's own measurement of the path's RTT and its variation.
  r.rate = r.start
               ? Rate::bytes_per_second(report.rate)
               : tcp_throughput(settings_.path(config_.packet_size, r.rtt.srtt(), r.rtt.timeout()),
                                r.loss);
  const Representatives::Change change = representatives_.offer(r);
  if (change == Representatives::Change::kNewClr) rate_.clr_chosen(now, r.rtt.srtt());
  if (change == Representatives::Change::kNewClr || change == Representatives::Change::kJoined) {
    trace_representatives(sink);
  }
  if (representatives_.clr()->id == report.source) {
    adjust(rate_.response(now, r, data_sent_, grtt_), sink);
    data_sent_ = false;
  }
}

void Sender::leave(Time now, std::uint32_t id, Sink& sink) {
  if (representatives_.find(id) == nullptr) return;
  if (representatives_.remove(id) && representatives_.clr() != nullptr) {
    rate_.clr_chosen(now, representatives_.clr()->rtt.srtt());
  }
  trace_representatives(sink);
}

// PROTOCOLS 6.3.
void Sender::sample_grtt(Duration rtt) {
  if (rtt > grtt_) grtt_ = grtt_ * 0.25 + rtt * 0.75;
  grtt_ = std::clamp(grtt_, kMinGrtt, kMaxGrtt);
  peak_ = std::max(peak_, rtt);
}

void Sender::take(Time now, const wire::MdpccNack& nack, Sink& sink) {
  ++nacks_;
  if (!running_) return;
  const std::uint32_t added = object_.request(now, nack);
  finished_ = false;
  if (idle_interval_ != kFirstIdleInterval) {
    idle_interval_ = kFirstIdleInterval;
    probe_at_ = std::min(probe_at_, now + probe_interval());
  }
  // Tell the group what has been asked for, also if the repairs still wait, but then at most once
  // per GRTT.
  if (added > 0 || now - reflected_at_ >= advertised_grtt()) {
    reflected_at_ = now;
    wire::MdpccNack reflection = nack;
    reflection.reflected = true;
    std::array<std::byte, wire::MdpccNack::kMaxBytes> message;
    sink.send(Destination::group(0), {message.data(), wire::write(reflection, message)});
  }
  const TraceField fields[] = {{"receiver", static_cast<double>(nack.source)},
                               {"ranges", static_cast<double>(nack.record_count)},
                               {"new_segments", static_cast<double>(added)}};
  sink.trace("mdpcc.nack_received", fields);
}

void Sender::timer(Time now, Sink& sink) {
  now = advance(now);
  if (now < probe_at_) return;
  if (now - epoch_at_ >= advertised_grtt()) {
    epoch_at_ = now;
    reflections_ = 0;
    object_.begin_epoch();
    if (peak_ > Duration::zero() && peak_ < grtt_) grtt_ = std::max(grtt_ * 0.9, peak_);
    grtt_ = std::clamp(grtt_, kMinGrtt, kMaxGrtt);
    peak_ = Duration::zero();
  }
  forget_silent(now, sink);
  const bool was_finished = finished_;
  finished_ = object_.flushing() &&
              now - object_.quiet_since() >= advertised_grtt() * settings_.flush_rounds;
  if (finished_) {
    adjust(rate_.idle(grtt_), sink);
    if (!was_finished) {
      const TraceField fields[] = {{"segments", static_cast<double>(object_.segment_count())},
                                   {"repairs", static_cast<double>(repairs_)},
                                   {"nacks", static_cast<double>(nacks_)}};
      sink.trace("mdpcc.finished", fields);
    }
  } else {
    const Representative* clr = representatives_.clr();
    const Duration rtt = clr != nullptr ? clr->rtt.srtt() : grtt_;
    const Duration patience = std::max({grtt_, rtt, probe_interval()});
    adjust(rate_.no_response(now, clr, patience, grtt_), sink);
  }
  send_probe(now, sink);
  if (finished_) {
    probe_at_ = now + idle_interval_;
    idle_interval_ = std::min(idle_interval_ * kIdleGrowth, kLastIdleInterval);
  } else {
    probe_at_ = now + probe_interval();
  }
}

// The base of the receivers' timers. It is never shorter than the interval between packets.
Duration Sender::advertised_grtt() const {
  return std::clamp(std::max(grtt_, rate_.packet_interval()), kMinGrtt, kMaxGrtt);
}

// One probe per GRTT, or per RTT of the CLR if that is shorter, but not more probes than data
// packets.
Duration Sender::probe_interval() const {
  const Representative* clr = representatives_.clr();
  const Duration rtt = clr != nullptr ? std::min(clr->rtt.srtt(), grtt_) : grtt_;
  return std::max({rtt, rate_.packet_interval(), kMinGrtt});
}

void Sender::forget_silent(Time now, Sink& sink) {
  for (std::size_t i = 0; i < representatives_.size();) {
    const Representative& r = representatives_[i];
    const Duration longest = std::max(grtt_, r.rtt.srtt()) * kSilent;
    if (now - r.heard_at > longest && probes_ - r.heard_probe > kSilent) {
      leave(now, r.id, sink);
    } else {
      ++i;
    }
  }
}

void Sender::send_probe(Time now, Sink& sink) {
  ++probe_seq_;
  ++probes_;
  probe_tx_us_[probe_seq_ % kProbes] = wire::clock_us(now);
  wire::MdpccProbe probe;
  probe.session = config_.session;
  probe.probe_seq = probe_seq_;
  probe.tx_time_us = wire::clock_us(now);
  probe.grtt_us = wire::to_u32(advertised_grtt());
  probe.tx_rate = wire::to_u32(rate_.rate());
  probe.group_size = static_cast<std::uint16_t>(settings_.group_size);
  probe.backoff = static_cast<std::uint8_t>(settings_.backoff);
  probe.object_id = object_id_;
  if (!object_.endless()) {
    probe.segment_size = static_cast<std::uint16_t>(object_.segment_size());
    probe.segment_count = object_.segment_count();
    probe.next_segment = object_.next_segment();
  }
  probe.record_count = static_cast<std::uint8_t>(representatives_.size());
  for (std::size_t i = 0; i < representatives_.size(); ++i) {
    const Representative& r = representatives_[i];
    const int flags =
        (i == 0 ? wire::kMdpccClr : 0) | wire::kMdpccRtt | (r.start ? wire::kMdpccStart : 0);
    probe.representatives[i] = {r.id, wire::to_u32(r.rtt.srtt()), wire::to_u32(r.rate),
                                static_cast<std::uint8_t>(flags)};
  }
  std::array<std::byte, wire::MdpccProbe::kMaxBytes> message;
  sink.send(Destination::group(0), {message.data(), wire::write(probe, message)});
}

void Sender::adjust(GoalRate::Reason reason, Sink& sink) {
  if (reason == GoalRate::Reason::kNone) return;
  sink.set_rate(0, rate_.rate());
  const Representative* clr = representatives_.clr();
  const TraceField fields[] = {
      {"tx_rate_Bps", rate_.rate().bytes_per_second()},
      {"goal_rate_Bps", rate_.goal().bytes_per_second()},
      {"reason", static_cast<double>(reason)},
      {"clr", clr != nullptr ? static_cast<double>(clr->id) : -1},
      {"rtt_us", clr != nullptr ? clr->rtt.srtt().seconds() * 1e6 : 0},
      {"timeout_us", clr != nullptr ? clr->rtt.timeout().seconds() * 1e6 : 0},
      {"loss", clr != nullptr ? clr->loss : 0},
      {"slow_start", rate_.slow_start() ? 1.0 : 0.0},
      {"grtt_us", grtt_.seconds() * 1e6}};
  sink.trace("mdpcc.rate", fields);
}

void Sender::trace_representatives(Sink& sink) const {
  static constexpr std::string_view kIds[] = {"clr", "id_1", "id_2", "id_3", "id_4"};
  static constexpr std::string_view kRates[] = {"clr_rate_Bps", "rate_1_Bps", "rate_2_Bps",
                                                "rate_3_Bps", "rate_4_Bps"};
  std::array<TraceField, 1 + 2 * std::size(kIds)> fields;
  std::size_t n = 0;
  fields[n++] = {"count", static_cast<double>(representatives_.size())};
  for (std::size_t i = 0; i < representatives_.size(); ++i) {
    fields[n++] = {kIds[i], static_cast<double>(representatives_[i].id)};
    fields[n++] = {kRates[i], representatives_[i].rate.bytes_per_second()};
  }
  sink.trace("mdpcc.representatives", {fields.data(), n});
}

}  // namespace tiercast::mdpcc
