#include "protocols/schemes/rla/listening.h"

#include <algorithm>
#include <cmath>

namespace tiercast::rla {

RandomListening::RandomListening(const Settings& settings, std::uint64_t seed)
    : settings_(settings), rng_(seed) {
  restart();
}

void RandomListening::restart() {
  cwnd_ = settings_.initial_window;
  awnd_ = cwnd_;
  ssthresh_ = settings_.max_window;
  last_window_cut_ = Time::never();
}

bool RandomListening::troubled(const Listener& listener, std::uint64_t packets_sent) const {
  if (!listener.interval.valid()) return false;
  // The current interval enters the average once that makes the average longer. So one long silence
  // does not make a receiver rare, and a receiver that is silent for good stops being troubled.
  const double average = listener.interval.value();
  const double silence = static_cast<double>(packets_sent - listener.last_signal_packet);
  const double interval = average + settings_.interval_weight * std::max(0.0, silence - average);
  // RLA 3.3, rule 6: the congestion probability above 1 / (eta min_congestion_interval).
  return interval < settings_.eta * min_interval_;
}

void RandomListening::set_troubled(Listener& listener, bool value) {
  if (listener.troubled == value) return;
  listener.troubled = value;
  num_trouble_rcvr_ += value ? 1u : ~0u;
}

void RandomListening::begin_recount() { min_interval_ = 0; }

void RandomListening::recount_interval(const Listener& listener) {
  if (!listener.interval.valid()) return;
  const double interval = listener.interval.value();
  min_interval_ = min_interval_ > 0 ? std::min(min_interval_, interval) : interval;
}

void RandomListening::recount_troubled(Listener& listener, std::uint64_t packets_sent) {
  set_troubled(listener, troubled(listener, packets_sent));
}

void RandomListening::forget(const Listener& listener) {
  if (listener.troubled) --num_trouble_rcvr_;
}

RandomListening::Reaction RandomListening::loss(Time now, Listener& listener, Duration srtt,
                                                Duration max_srtt, std::uint64_t packets_sent) {
  // Rule 2: all losses within 2 srtt_i are one congestion signal.
  if (!listener.cperiod_start.is_never() && now - listener.cperiod_start <= srtt * 2) {
    return Reaction::kSamePeriod;
  }
  listener.cperiod_start = now;
  ++listener.signals;
  ++signals_;
  const std::uint64_t since = packets_sent - listener.last_signal_packet;
  listener.interval.update(static_cast<double>(std::max<std::uint64_t>(1, since)));
  listener.last_signal_packet = packets_sent;
  const double interval = listener.interval.value();
  min_interval_ = min_interval_ > 0 ? std::min(min_interval_, interval) : interval;
  set_troubled(listener, troubled(listener, packets_sent));
  if (!listener.troubled) return Reaction::kRare;

  // Rule 3. Before the first cut there is no interval that could be too long. The paper assumes the
  // same srtt_i for all receivers. Where they differ, the round trips of footnote 7 must be the
  // window's; otherwise near receivers would cut the window all the time.
  if (!last_window_cut_.is_never() &&
      now - last_window_cut_ > max_srtt * (settings_.forced_cut * awnd_)) {
    ++forced_cuts_;
    cut(now);
    return Reaction::kForcedCut;
  }
  const double x = max_srtt > Duration::zero() ? std::min(1.0, srtt / max_srtt) : 1;
  pthresh_ = std::pow(x, settings_.rtt_exponent) / std::max(1u, num_trouble_rcvr_);  // RLA 5.3
  if (rng_.uniform() > pthresh_) return Reaction::kIgnored;
  ++randomized_cuts_;
  cut(now);
  return Reaction::kRandomizedCut;
}

void RandomListening::cut(Time now) {
  cwnd_ = std::max(1.0, cwnd_ / 2);
  ssthresh_ = std::max(2.0, cwnd_);
  last_window_cut_ = now;
}

void RandomListening::acked_by_all() {
  cwnd_ += cwnd_ < ssthresh_ ? 1 : 1 / cwnd_;  // rule 4; slow start as in TCP
  cwnd_ = std::min(cwnd_, static_cast<double>(settings_.max_window));
  awnd_ += settings_.awnd_weight * (cwnd_ - awnd_);
}

void RandomListening::timeout(Time now) {
  ssthresh_ = std::max(2.0, cwnd_ / 2);
  cwnd_ = 1;
  last_window_cut_ = now;
}

}  // namespace tiercast::rla
