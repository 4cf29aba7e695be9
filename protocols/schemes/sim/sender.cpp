#include "protocols/schemes/sim/sender.h"

#include <algorithm>

#include "protocols/base/rng.h"
#include "protocols/base/serial.h"
#include "protocols/wire/quantities.h"

namespace tiercast::sim {
Sender::Sender(const SessionConfig& config)
    : config_(config),
      settings_(Settings::from(config)),
      children_(settings_.max_children),
      rtt_(settings_.rtt_weight),
      max_rtt_(settings_.initial_rtt) {
  // All numbers start anywhere, so that a restarted sender does not look like the old one.
  Rng rng(config.seed);
  fb_req_ = static_cast<std::uint32_t>(rng.next());
  rate_epoch_ = static_cast<std::uint16_t>(rng.next());
  for (Layer& layer : layers_) layer.seq = static_cast<std::uint32_t>(rng.next());
  request_sent_at_.fill(Time::never());
}

Time Sender::advance(Time now) { return now_ = std::max(now_, now); }

void Sender::start(Time now, Sink&) {
  now_ = now;
  next_menu_time_ = now + settings_.menu_interval;
}

void Sender::stop(Time now, Sink& sink) {
  membership(now, -1, sink);
  phase_ = Phase::kIdle;
  deadline_ = Time::never();
}

void Sender::membership(Time now, int top_rank, Sink& sink) {
  now = advance(now);
  const unsigned wanted =
      static_cast<unsigned>(std::clamp(top_rank + 1, 0, static_cast<int>(config_.layers)));
  // SIM 3.1: a group's transmission starts when the first receiver subscribes to it.
  for (unsigned k = active_layers_; k < wanted; ++k) {
    set_rate(static_cast<Rank>(k), settings_.initial_rate, sink);
    const Rate below = settings_.cumulative && k > 0 ? layers_[k - 1].adjusted : Rate::zero();
    layers_[k].adjusted = below + settings_.initial_rate;
  }
  for (unsigned k = wanted; k < active_layers_; ++k) {
    set_rate(static_cast<Rank>(k), Rate::zero(), sink);
  }
  active_layers_ = wanted;
  if (wanted == 0) {
    children_.clear();
    phase_ = Phase::kIdle;
    deadline_ = Time::never();
  } else if (phase_ == Phase::kIdle) {
    begin_round(now);
  }
}

void Sender::set_rate(Rank layer, Rate rate, Sink& sink) {
  layers_[layer].rate = rate;
  sink.set_rate(layer, rate);
}

std::size_t Sender::write_data(Time now, Rank layer, std::span<std::byte> message) {
  now = advance(now);
  if (layer >= config_.layers) return 0;
  Time& request_sent_at = request_sent_at_[fb_req_ % kRequests];
  if (request_sent_at.is_never()) request_sent_at = now;
  wire::SimData data;
  data.session = config_.session;
  data.rank = layer;
  data.rate_epoch = rate_epoch_;
  data.seq = layers_[layer].seq;
  data.tx_time_us = wire::clock_us(now);
  data.fb_req = fb_req_;
  data.group_rate = wire::to_u32(layers_[layer].adjusted);
  data.max_rtt_us = wire::to_u32(max_rtt_);
  const std::size_t length = wire::write(data, message);
  if (length > 0) ++layers_[layer].seq;
  return length;
}

void Sender::begin_round(Time now) {
  ++fb_req_;
  request_sent_at_[fb_req_ % kRequests] = Time::never();
  new_child_ = false;
  rates_reported_ = false;
  for (Layer& layer : layers_) layer.summary = {};
  children_.begin_round();
  phase_ = Phase::kCollecting;
  // Layer 0 reaches everybody, so the request is on its way to all within one of its packet
  // intervals.
  const Duration interval = layers_[0].rate.time_for(config_.packet_size);
  deadline_ = now + max_rtt_ * 2 + std::min(interval, kMaxRtt);
}

bool Sender::acceptable(const wire::SimFeedback& feedback) const {
  if (feedback.session != config_.session) return false;
  // Records are in ascending order of rank, so the last one has the largest.
  return feedback.record_count == 0 ||
         feedback.records[feedback.record_count - 1].rank < config_.layers;
}

// An answer does not count if its request was sent long ago, or not yet.
bool Sender::asked(std::uint32_t fb_req) const {
  return fb_req_ - fb_req < kRequests && !request_sent_at_[fb_req % kRequests].is_never();
}

// Whether who sends it speaks for as many receivers as it counts. A receiver has nobody below it.
// An aggregator may count one twice, in a round in which it leaves and comes back.
bool Sender::plausible(const wire::SimFeedback& feedback) const {
  if (config_.members == nullptr) return true;
  const std::uint64_t below = config_.members->below(feedback.source);
  std::uint64_t receivers = 0;  // at least as many as reports
  for (unsigned i = 0; i < feedback.record_count; ++i) receivers += feedback.records[i].receivers;
  return below == 0 ? receivers <= 1 && feedback.subtree_rtt_us == 0 : receivers <= 2 * below;
}

// An aggregator's is everybody's: one liar below it must not silence the others.
bool Sender::believed(const wire::SimFeedback& feedback) {
  if (plausible(feedback)) return true;
  ++implausible_;
  return config_.members->below(feedback.source) > 0;
}

void Sender::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = advance(now);
  wire::SimFeedback feedback;
  if (wire::parse(arrival.message, feedback) != wire::Error::kOk || !acceptable(feedback)) {
    ++invalid_;
    return;
  }
  const bool bye = feedback.record_count == 1 && feedback.records[0].bye();
  if (!asked(feedback.fb_req)) {
    // Who leaves may not have heard of any request.
    ++(bye || serial_newer(fb_req_, feedback.fb_req) ? invalid_ : implausible_);
    return;
  }
  if (!believed(feedback)) return;
  if (phase_ == Phase::kIdle) return;
  const std::uint32_t age = fb_req_ - feedback.fb_req;
  if (bye) {
    children_.remove(feedback.source);
  } else if (phase_ != Phase::kCollecting || age > 0) {
    // Too late for its round (aggregation noise, SIM 3.1). It still shows how long the timer should
    // have been; otherwise the sender would never wait for children behind a long queue.
    children_.seen(feedback.source);
    sample_rtt(now, feedback);
    return;
  } else {
    switch (children_.answer(feedback.source)) {
      case Children::Answer::kNew: new_child_ = true; break;
      case Children::Answer::kKnown: break;
      case Children::Answer::kDuplicate: return;
      case Children::Answer::kFull: ++invalid_; return;
    }
    merge(feedback);
    sample_rtt(now, feedback);
  }
  // While new children are being discovered, more answers may be on their way, so wait for the
  // timer.
  if (phase_ == Phase::kCollecting && children_.pending() == 0 && children_.answered() > 0 &&
      !new_child_) {
    finish_round(now, sink);
  }
}

void Sender::sample_rtt(Time now, const wire::SimFeedback& feedback) {
  const Duration hold = Duration::microseconds(feedback.hold_us);
  const Duration below = Duration::microseconds(feedback.subtree_rtt_us);
  const Duration sample = now - request_sent_at_[feedback.fb_req % kRequests] - hold + below;
  rtt_sample_ = std::max(rtt_sample_, std::clamp(sample, kMinRtt, kMaxRtt));
}

void Sender::merge(const wire::SimFeedback& feedback) {
  for (unsigned i = 0; i < feedback.record_count; ++i) {
    const wire::SimRecord& record = feedback.records[i];
    if (record.reports == 0) continue;
    GroupSummary& summary = layers_[record.rank].summary;
    summary.reports += record.reports;
    summary.congested += record.congested;
    min_cum_rate_ =
        rates_reported_ ? std::min(min_cum_rate_, record.min_cum_rate) : record.min_cum_rate;
    max_cum_rate_ =
        rates_reported_ ? std::max(max_cum_rate_, record.max_cum_rate) : record.max_cum_rate;
    rates_reported_ = true;
  }
}

void Sender::timer(Time now, Sink& sink) {
  now = advance(now);
  if (now < deadline_) return;
  if (phase_ == Phase::kCollecting) {
    finish_round(now, sink);
  } else if (phase_ == Phase::kWaiting) {
    begin_round(now);
  }
}

void Sender::finish_round(Time now, Sink& sink) {
  update_rtt();
  empty_rounds_ = children_.answered() == 0 ? empty_rounds_ + 1 : 0;
  adjust_rates(sink);
  // Without answers the epoch stays the same. Otherwise receivers would take the decay of a sender
  // without feedback for a cut that others asked for, and all would add layers.
  if (children_.answered() > 0) ++rate_epoch_;
  adapt_menu_if_due(now, sink);
  const TraceField round[] = {{"fb_req", static_cast<double>(fb_req_)},
                              {"reports", static_cast<double>(children_.answered())},
                              {"missing", static_cast<double>(children_.pending())},
                              {"rtt_max_us", max_rtt_.seconds() * 1e6}};
  sink.trace("sim.round", round);
  children_.end_round(settings_.silent_rounds);
  phase_ = Phase::kWaiting;
  deadline_ = now + max_rtt_;  // SIM 3.1: the next request reflects the adjustment
}

// SIM 3.4: to be called when the transmission rate is adjusted.
void Sender::update_rtt() {
  if (rtt_sample_ == Duration::zero()) return;
  rtt_.update(rtt_sample_.seconds());
  max_rtt_ = Duration::seconds(rtt_.value());
  rtt_sample_ = Duration::zero();
}

void Sender::adjust_rates(Sink& sink) {
  const bool unheard = empty_rounds_ >= settings_.empty_rounds;
  Rate below;  // c[k-1] after its adjustment
  for (unsigned k = 0; k < active_layers_; ++k) {
    const Rank rank = static_cast<Rank>(k);
    Layer& layer = layers_[k];
    Rate adjusted = layer.adjusted;  // by AIMD, and bounded by the menu (SIM 3.1)
    bool congested = false;
    if (layer.summary.reports > 0) {
      congested = group_congested(rank, config_.layers, menu_.active, layer.summary);
      adjusted = congested ? adjusted * settings_.delta : adjusted + settings_.increase;
      if (congested && rank + 1u == config_.layers) top_seen_congested_ = true;
    } else if (unheard) {
      adjusted = adjusted * settings_.delta;
    }
    // r[k]. A difference may be negative; the floor below takes care of that.
    Rate rate = settings_.cumulative ? adjusted - below : adjusted;
    const bool middle = k > 0 && k + 1 < config_.layers;
    if (middle && menu_.active) rate = std::min(rate, menu_.limit[k] - below);
    rate = std::clamp(rate, settings_.min_rate, settings_.max_rate);
    below += rate;
    layer.adjusted = settings_.cumulative ? below : rate;
    if (rate != layer.rate) set_rate(rank, rate, sink);
    const TraceField group[] = {{"rank", static_cast<double>(k)},
                                {"reports", static_cast<double>(layer.summary.reports)},
                                {"congested_reports", static_cast<double>(layer.summary.congested)},
                                {"congested", congested ? 1.0 : 0.0},
                                {"rate_Bps", rate.bytes_per_second()}};
    sink.trace("sim.group", group);
  }
}

// SIM 3.3. A round with missing answers would give a wrong range, so wait for the next complete
// one.
void Sender::adapt_menu_if_due(Time now, Sink& sink) {
  if (now < next_menu_time_ || children_.pending() > 0 || !rates_reported_) return;
  next_menu_time_ = now + settings_.menu_interval;
  const Rate min = Rate::bytes_per_second(min_cum_rate_);
  const Rate max = Rate::bytes_per_second(max_cum_rate_);
  menu_ = adapt_menu(config_.layers, top_seen_congested_, min, max, settings_.menu_threshold);
  static constexpr std::string_view kLimitNames[] = {
      "", "limit_1_Bps", "limit_2_Bps", "limit_3_Bps", "limit_4_Bps", "limit_5_Bps", "limit_6_Bps"};
  std::array<TraceField, 3 + std::size(kLimitNames)> fields;
  std::size_t n = 0;
  fields[n++] = {"active", menu_.active ? 1.0 : 0.0};
  fields[n++] = {"min_Bps", min.bytes_per_second()};
  fields[n++] = {"max_Bps", max.bytes_per_second()};
  for (unsigned k = 1; k + 2 <= config_.layers; ++k) {
    fields[n++] = {kLimitNames[k], menu_.limit[k].bytes_per_second()};
  }
  sink.trace("sim.menu", {fields.data(), n});
}

}  // namespace tiercast::sim
