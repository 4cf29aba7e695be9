#include "protocols/schemes/rlc/sender.h"

#include <algorithm>
#include <bit>

#include "protocols/base/rng.h"
#include "protocols/schemes/rlc/messages.h"

namespace tiercast::rlc {
namespace {

// The share of a layer's rate that remains in the pause. At this rate nothing leaves, but the pacer
// keeps the layer's place in the schedule, so that burst and pause together send at the layer's
// rate.
constexpr double kPaused = 1e-6;

}  // namespace

Sender::Sender(const SessionConfig& config) : config_(config), settings_(Settings::from(config)) {
  // Numbers start anywhere, so that a restarted sender does not look like the old one.
  Rng rng(config.seed);
  for (std::uint32_t& seq : seq_) seq = static_cast<std::uint32_t>(rng.next());
}

void Sender::start(Time now, Sink&) {
  point_at_ = now + settings_.sync_interval;
  next_ = point_at_ - settings_.burst;
}

void Sender::stop(Time now, Sink& sink) {
  next_ = Time::never();
  membership(now, -1, sink);
}

void Sender::membership(Time, int top_rank, Sink& sink) {
  const auto before = active_layers_;
  active_layers_ =
      static_cast<unsigned>(std::clamp(top_rank + 1, 0, static_cast<int>(config_.layers)));
  // No packet of a layer that starts carries a point that has passed: its first receiver would take
  // the next layer without a burst.
  for (unsigned k = before; k < active_layers_; ++k) sync_point_[k] = false;
  apply_rates(sink);
}

int Sender::top_of(std::uint64_t point) const {
  return std::min(std::countr_zero(point), static_cast<int>(config_.layers) - 1);
}

void Sender::timer(Time now, Sink& sink) {
  // Points that fell into a stall are skipped.
  if (const double late = (now - point_at_) / settings_.sync_interval; late > 2) {
    const auto missed = static_cast<std::uint64_t>(late);
    point_ += missed;
    point_at_ = point_at_ + settings_.sync_interval * static_cast<double>(missed);
    phase_ = Phase::kRest;
    probed_ = -1;
    next_ = point_at_ - settings_.burst;
  }
  while (now >= next_) {
    switch (phase_) {
      case Phase::kRest:
        phase_ = Phase::kBurst;
        probed_ = top_of(point_);
        next_ = point_at_;
        break;
      case Phase::kBurst:
        phase_ = Phase::kPause;
        for (int k = 0; k <= probed_; ++k) sync_point_[static_cast<std::size_t>(k)] = true;
        next_ = point_at_ + settings_.burst;
        break;
      case Phase::kPause:
        phase_ = Phase::kRest;
        probed_ = -1;
        ++point_;
        point_at_ = point_at_ + settings_.sync_interval;
        next_ = point_at_ - settings_.burst;
        break;
    }
  }
  apply_rates(sink);
}

void Sender::apply_rates(Sink& sink) {
  for (unsigned k = 0; k < config_.layers; ++k) {
    Rate rate = k < active_layers_ ? settings_.rate[k] : Rate::zero();
    if (static_cast<int>(k) <= probed_) rate = rate * (phase_ == Phase::kBurst ? 2 : kPaused);
    if (rate == paced_[k]) continue;
    paced_[k] = rate;
    sink.set_rate(static_cast<Rank>(k), rate);
  }
}

std::size_t Sender::write_data(Time, Rank layer, std::span<std::byte> message) {
  if (layer >= active_layers_) return 0;
  wire::RlcData data;
  data.session = config_.session;
  data.rank = layer;
  data.sync_point = sync_point_[layer];
  data.seq = seq_[layer];
  const std::size_t length = wire::write(data, message);
  if (length == 0) return 0;
  ++seq_[layer];
  sync_point_[layer] = false;
  return length;
}

}  // namespace tiercast::rlc
