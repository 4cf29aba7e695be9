#include "protocols/schemes/mlda/sender.h"

#include <algorithm>

#include "protocols/base/serial.h"
#include "protocols/schemes/mlda/rtt_tracker.h"
#include "protocols/wire/quantities.h"

namespace tiercast::mlda {
namespace {

// A report may answer a sender report that is this many behind, if its receiver missed the later
// ones.
constexpr std::uint32_t kMaxReportAge = 1 << 10;
constexpr double kSilentDecrease = 0.5;  // PROTOCOLS 7.4

}  // namespace

Sender::Sender(const SessionConfig& config)
    : config_(config), settings_(Settings::from(config)), rng_(config.seed) {
  // All numbers start anywhere, so that a restarted sender does not look like the old one.
  sr_seq_ = static_cast<std::uint32_t>(rng_.next());
  for (std::uint32_t& seq : seq_) seq = static_cast<std::uint32_t>(rng_.next());
}

void Sender::membership(Time now, int top_rank, Sink& sink) {
  now = advance(now);
  const unsigned before = subscribed_;
  subscribed_ =
      static_cast<unsigned>(std::clamp(top_rank + 1, 0, static_cast<int>(config_.layers)));
  if (before == 0 && subscribed_ > 0) {
    layering_ = {};
    layering_.rate[0] = settings_.initial_rate;
    cycle_ = {};
    silent_cycles_ = 0;
    // Gives others that start at the same time the time to be grafted.
    next_report_ = now + settings_.sync_time + settings_.control_jitter * rng_.uniform();
    next_pair_ = now + pair_interval();
  } else if (subscribed_ == 0) {
    next_report_ = Time::never();
    next_pair_ = Time::never();
    pair_left_ = 0;
  }
  apply_rates(sink);
}

std::size_t Sender::write_data(Time now, Rank layer, std::span<std::byte> message) {
  now = advance(now);
  if (layer >= layering_.count || layer >= subscribed_) return 0;
  wire::MldaData data;
  data.session = config_.session;
  data.rank = layer;
  data.seq = seq_[layer];
  data.tx_time_us = wire::clock_us(now);
  if (layer == 0 && pair_left_ > 0) data.pair = pair_left_ == 2 ? 1 : 2;
  const std::size_t length = wire::write(data, message);
  if (length == 0) return 0;
  ++seq_[layer];
  if (data.pair > 0) --pair_left_;
  return length;
}

bool Sender::acceptable(const wire::MldaReceiverReport& report) const {
  return report.session == config_.session && report.rank < settings_.max_layers;
}

void Sender::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = advance(now);
  wire::MldaReceiverReport report;
  if (subscribed_ == 0 || wire::parse(arrival.message, report) != wire::Error::kOk ||
      !acceptable(report)) {
    ++invalid_;
    return;
  }
  if (const std::uint32_t age = sr_seq_ - report.sr_seq; age >= kMaxReportAge) {
    ++(serial_newer(report.sr_seq, sr_seq_) ? implausible_ : invalid_);
    return;
  }
  const Rate rate =
      std::clamp(Rate::bytes_per_second(report.rate), settings_.min_rate, settings_.max_rate);
  if (cycle_.reports == 0 || rate < cycle_.r_min) {
    cycle_.r_min = rate;
    cycle_.slowest = report.source;
  }
  cycle_.r_max = std::max(cycle_.r_max, rate);
  cycle_.max_rtt_us =
      std::max(cycle_.max_rtt_us,
               std::min<std::uint32_t>(report.rtt_us, static_cast<std::uint32_t>(kMaxRtt.us())));
  ++cycle_.reports;
  reflect(now, report, sink);
  // MLDA III-A: a request for less than the base layer's rate takes effect at once.
  if (rate < layering_.rate[0]) {
    const TraceField cut[] = {{"receiver", static_cast<double>(report.source)},
                              {"r_j_Bps", rate.bytes_per_second()},
                              {"r_1_Bps", layering_.rate[0].bytes_per_second()},
                              {"l", report.loss / 4294967295.0},
                              {"rtt_us", static_cast<double>(report.rtt_us)}};
    sink.trace("mlda.cut", cut);
    layering_.rate[0] = rate;
    apply_rates(sink);
  }
}

// Multicast is source-specific, so the sender repeats what a receiver says to the group.
void Sender::reflect(Time now, const wire::MldaReceiverReport& report, Sink& sink) {
  if (cycle_.reflections >= settings_.max_reflections) return;
  ++cycle_.reflections;
  wire::MldaReflection reflection;
  reflection.session = config_.session;
  reflection.rank = report.rank;
  reflection.asks_rtt = report.asks_rtt;
  reflection.source = report.source;
  reflection.sr_seq = report.sr_seq;
  reflection.rate = report.rate;
  reflection.rx_time_us = report.rx_time_us;
  reflection.tx_time_us = wire::clock_us(now);
  std::array<std::byte, wire::MldaReflection::kBytes> message;
  sink.send(Destination::group(report.rank), {message.data(), wire::write(reflection, message)});
}

void Sender::timer(Time now, Sink& sink) {
  now = advance(now);
  if (now >= next_report_) {
    end_cycle(sink);
    send_report(now, sink);
    next_report_ = now + report_interval();
  }
  if (now >= next_pair_) {
    pair_left_ = 2;
    sink.release(0, 2);
    next_pair_ = now + pair_interval();
  }
}

Duration Sender::report_interval() {
  return settings_.control_interval + settings_.control_jitter * rng_.uniform();
}

// Pairs use at most half of the base layer's packets.
Duration Sender::pair_interval() const {
  return std::max(settings_.pair_interval, layering_.rate[0].time_for(4.0 * config_.packet_size));
}

void Sender::end_cycle(Sink& sink) {
  silent_cycles_ = cycle_.reports == 0 ? silent_cycles_ + 1 : 0;
  if (cycle_.reports > 0) {
    layering_ = divide(cycle_.r_min, cycle_.r_max, settings_.alpha, settings_.max_layers,
                       settings_.min_layer_rate);
    if (cycle_.max_rtt_us > 0) max_rtt_us_ = cycle_.max_rtt_us;
  } else if (silent_cycles_ >= settings_.silent_cycles) {
    layering_.rate[0] = std::max(layering_.rate[0] * kSilentDecrease, settings_.min_rate);
    for (unsigned k = 1; k < layering_.count; ++k) {
      layering_.rate[k] = std::max(layering_.rate[k] * kSilentDecrease, settings_.min_layer_rate);
    }
  }
  apply_rates(sink);
  trace_layers(sink);
  cycle_ = {};
}

void Sender::trace_layers(Sink& sink) const {
  static constexpr std::string_view kNames[] = {"R_1_Bps", "R_2_Bps", "R_3_Bps", "R_4_Bps",
                                                "R_5_Bps", "R_6_Bps", "R_7_Bps", "R_8_Bps"};
  std::array<TraceField, 6 + std::size(kNames)> fields;
  std::size_t n = 0;
  fields[n++] = {"sr_seq", static_cast<double>(sr_seq_ + 1)};
  fields[n++] = {"reports", static_cast<double>(cycle_.reports)};
  fields[n++] = {"r_min_Bps", cycle_.r_min.bytes_per_second()};
  fields[n++] = {"r_max_Bps", cycle_.r_max.bytes_per_second()};
  fields[n++] = {"slowest", static_cast<double>(cycle_.slowest)};
  fields[n++] = {"max_rtt_us", static_cast<double>(max_rtt_us_)};
  for (unsigned k = 0; k < layering_.count; ++k) {
    fields[n++] = {kNames[k], layering_.rate[k].bytes_per_second()};
  }
  sink.trace("mlda.layers", {fields.data(), n});
}

void Sender::send_report(Time now, Sink& sink) {
  wire::MldaSenderReport report;
  report.session = config_.session;
  report.record_count = static_cast<std::uint8_t>(layering_.count);
  report.sr_seq = ++sr_seq_;
  report.tx_time_us = wire::clock_us(now);
  report.max_rtt_us = max_rtt_us_;
  for (unsigned k = 0; k < layering_.count; ++k) {
    report.rate[k] = std::max(1u, wire::to_u32(layering_.rate[k]));
  }
  std::array<std::byte, wire::MldaSenderReport::kMaxBytes> message;
  sink.send(Destination::group(0), {message.data(), wire::write(report, message)});
}

// Sends the layers that exist and have a listener. Pairs are released in addition to the pacer's
// packets, so the pacer gets the base layer's rate minus theirs.
void Sender::apply_rates(Sink& sink) {
  for (unsigned k = 0; k < config_.layers; ++k) {
    Rate rate = k < subscribed_ && k < layering_.count ? layering_.rate[k] : Rate::zero();
    if (k == 0 && rate > Rate::zero()) {
      rate = rate - Rate::bytes_per_second(2.0 * config_.packet_size / pair_interval().seconds());
    }
    if (rate == paced_[k]) continue;
    paced_[k] = rate;
    sink.set_rate(static_cast<Rank>(k), rate);
  }
}

}  // namespace tiercast::mlda
