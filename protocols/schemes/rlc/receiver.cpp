#include "protocols/schemes/rlc/receiver.h"

#include <algorithm>

namespace tiercast::rlc {
namespace {

constexpr Duration kRateWindow = Duration::seconds(1);

}  // namespace

Receiver::Receiver(const SessionConfig& config)
    : config_(config), settings_(Settings::from(config)), reception_(kRateWindow) {}

void Receiver::start(Time now, Sink& sink) {
  now_ = deaf_until_ = joined_at_ = now;
  change_top(0, sink);
}

void Receiver::stop(Time, Sink& sink) { change_top(-1, sink); }

void Receiver::change_top(int top, Sink& sink) {
  // A synchronization point of the next layer is also one of this layer. So a receiver that joins
  // has part of an interval behind it already, and catches up with receivers above, whose intervals
  // are longer.
  lossless_ = lossless_ && top > reception_.top();
  reception_.subscribe(top, sink);
}

void Receiver::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = now_ = std::max(now_, now);
  wire::RlcData data;
  if (wire::parse(arrival.message, data) != wire::Error::kOk || data.session != config_.session ||
      data.rank >= config_.layers) {
    reception_.refuse();
    return;
  }
  if (data.rank > reception_.top()) return;  // it may still arrive after a leave
  const GapDetector::Packet packet = reception_.receive(now, data.rank, data.seq, arrival);
  if (packet.order == GapDetector::Order::kStray) return;
  if (packet.lost > 0 || (arrival.ce && settings_.ecn)) on_loss(now, sink);
  if (data.sync_point && data.rank == reception_.top()) on_sync_point(now, sink);
}

void Receiver::on_loss(Time now, Sink& sink) {
  lossless_ = false;
  if (now < deaf_until_ || reception_.top() <= 0) return;
  deaf_until_ = now + settings_.deaf;
  change_top(reception_.top() - 1, sink);
  const TraceField fields[] = {{"level", reception_.top() + 1.0},
                               {"deaf_s", settings_.deaf.seconds()}};
  sink.trace("rlc.leave", fields);
}

// In the deaf period the receiver does not join either, because it would not notice the harm.
void Receiver::on_sync_point(Time now, Sink& sink) {
  if (now < deaf_until_) return;
  // The new layer may have had the same point.
  if (now - joined_at_ < settings_.sync_interval * 0.5) return;
  if (!lossless_ || reception_.top() + 1 >= static_cast<int>(config_.layers)) {
    lossless_ = true;
    return;
  }
  change_top(reception_.top() + 1, sink);
  joined_at_ = now;
  const TraceField fields[] = {{"level", reception_.top() + 1.0}};
  sink.trace("rlc.join", fields);
}

}  // namespace tiercast::rlc
