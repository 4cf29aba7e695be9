#include "protocols/schemes/rlc/receiver.h"

#include <algorithm>

namespace tiercast::rlc {
namespace {

constexpr Duration kRateWindow = Duration::seconds(1);

}  // namespace

Receiver::Receiver(const SessionConfig& config)
    : config_(config), settings_(Settings::from(config)), meter_(kRateWindow) {}

void Receiver::start(Time now, Sink& sink) {
  now_ = deaf_until_ = joined_at_ = now;
  change_top(0, sink);
}

void Receiver::stop(Time, Sink& sink) { change_top(-1, sink); }

// One layer up, or any number down.
void Receiver::change_top(int top, Sink& sink) {
  if (top > counters_.top) {
    gaps_[static_cast<std::size_t>(top)].reset();
    sink.join(static_cast<Rank>(top));
  }
  for (int rank = counters_.top; rank > top; --rank) sink.leave(static_cast<Rank>(rank));
  // Points of the next layer are points of this one, too: whoever joins has already had part of an
  // interval, and so catches up with those above, whose intervals are longer.
  lossless_ = lossless_ && top > counters_.top;
  counters_.top = top;
  const TraceField fields[] = {{"top", static_cast<double>(top)}};
  sink.trace("subscription", fields);
}

ReceiverCounters Receiver::counters() const {
  ReceiverCounters counters = counters_;
  counters.rate = meter_.rate(now_);
  return counters;
}

void Receiver::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = now_ = std::max(now_, now);
  wire::RlcData data;
  if (wire::parse(arrival.message, data) != wire::Error::kOk || data.session != config_.session ||
      data.rank >= config_.layers) {
    ++counters_.invalid;
    return;
  }
  if (data.rank > counters_.top) return;  // still arriving after a leave
  const std::uint32_t lost = gaps_[data.rank].receive(data.seq);
  ++counters_.packets;
  counters_.bytes += arrival.ip_length;
  counters_.marked += arrival.ce ? 1 : 0;
  counters_.lost += lost;
  meter_.add(now, arrival.ip_length);
  if (lost > 0 || (arrival.ce && settings_.ecn)) on_loss(now, sink);
  if (data.sync_point && data.rank == counters_.top) on_sync_point(now, sink);
}

void Receiver::on_loss(Time now, Sink& sink) {
  lossless_ = false;
  if (now < deaf_until_ || counters_.top <= 0) return;
  deaf_until_ = now + settings_.deaf;
  change_top(counters_.top - 1, sink);
  const TraceField fields[] = {{"level", counters_.top + 1.0}, {"deaf_s", settings_.deaf.seconds()}};
  sink.trace("rlc.leave", fields);
}

// While it is deaf it joins nothing either: it would not notice the harm.
void Receiver::on_sync_point(Time now, Sink& sink) {
  if (now < deaf_until_) return;
  // The new layer may have had the same point.
  if (now - joined_at_ < settings_.sync_interval * 0.5) return;
  if (!lossless_ || counters_.top + 1 >= static_cast<int>(config_.layers)) {
    lossless_ = true;
    return;
  }
  change_top(counters_.top + 1, sink);
  joined_at_ = now;
  const TraceField fields[] = {{"level", counters_.top + 1.0}};
  sink.trace("rlc.join", fields);
}

}  // namespace tiercast::rlc
