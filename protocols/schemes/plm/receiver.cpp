#include "protocols/schemes/plm/receiver.h"

#include <algorithm>

namespace tiercast::plm {
namespace {

constexpr Duration kRateWindow = Duration::seconds(1);

}  // namespace

Receiver::Receiver(const SessionConfig& config)
    : config_(config), settings_(Settings::from(config)), reception_(kRateWindow) {}

void Receiver::start(Time now, Sink& sink) {
  now_ = now;
  change_level(now, 1, sink);
}

void Receiver::stop(Time now, Sink& sink) {
  change_level(now, 0, sink);
  rejoin_at_ = Time::never();
}

void Receiver::begin_check(Time now) {
  check_at_ = now + settings_.check;
  samples_ = 0;
}

void Receiver::change_level(Time now, int wanted, Sink& sink) {
  for (int rank = level(); rank < wanted; ++rank) {
    first_[static_cast<std::size_t>(rank)].valid = false;
  }
  reception_.subscribe(wanted - 1, sink);
  rejoin_at_ = wanted == 0 ? now + settings_.rejoin : Time::never();
}

void Receiver::receive(Time now, const Arrival& arrival, Sink& sink) {
  now = now_ = std::max(now_, now);
  wire::PlmData data;
  if (wire::parse(arrival.message, data) != wire::Error::kOk || data.session != config_.session ||
      data.rank >= config_.layers) {
    reception_.refuse();
    return;
  }
  if (data.rank > reception_.top()) return;  // it may still arrive after a leave
  const GapDetector::Packet packet = reception_.receive(now, data.rank, data.seq, arrival);
  if (packet.order == GapDetector::Order::kStray) return;
  const std::uint32_t lost = packet.lost + (arrival.ce && settings_.ecn ? 1 : 0);
  ++counted_packets_;
  const bool dropped = lost > 0 && on_loss(now, lost, sink);

  First& first = first_[data.rank];
  if (data.pair == 1) {
    first = {true, data.seq, now};
  } else if (first.valid && data.seq == first.seq + 1 && now > first.at) {
    first.valid = false;
    // A marked packet may be the second of a pair. Losses that took a layer outweigh what it says.
    if (!dropped)
      on_pair(now, Rate::bytes_per_second(arrival.ip_length / (now - first.at).seconds()), sink);
  }
}

int Receiver::level_for(Rate share) const {
  int wanted = 0;
  while (wanted < static_cast<int>(config_.layers) && settings_.cumulative(wanted + 1) < share) {
    ++wanted;
  }
  return wanted;
}

// Down at once, at the first pair that asks for it; up only by the least of a check period, which
// goes on until there are pairs enough.
void Receiver::on_pair(Time now, Rate share, Sink& sink) {
  least_ = samples_ == 0 ? share : std::min(least_, share);
  ++samples_;
  if (check_at_.is_never()) check_at_ = now + settings_.check;
  if (level_for(share) < level()) {
    drop_to_share(now, share, sink);
  } else if (now >= check_at_ && samples_ >= settings_.check_samples) {
    check(now, sink);
  }
}

void Receiver::drop_to_share(Time now, Rate share, Sink& sink) {
  const int wanted = level_for(share);
  change_level(now, wanted, sink);
  begin_check(now);
  counting_ = false;
  const TraceField fields[] = {{"level", static_cast<double>(wanted)},
                               {"share_Bps", share.bytes_per_second()}};
  sink.trace("plm.drop", fields);
}

void Receiver::check(Time now, Sink& sink) {
  const int wanted = level_for(least_);
  begin_check(now);
  counting_ = false;  // the share is a better judge than the losses so far
  if (wanted <= level()) return;
  change_level(now, wanted, sink);
  const TraceField fields[] = {{"level", static_cast<double>(wanted)},
                               {"share_Bps", least_.bytes_per_second()}};
  sink.trace("plm.join", fields);
}

// Packets and losses count from one loss on, which itself does not, so that a pair has its chance.
bool Receiver::on_loss(Time now, std::uint32_t lost, Sink& sink) {
  if (!counting_ || now >= counting_ends_ || now <= holdoff_ends_) {
    counting_ = true;
    counting_ends_ = now + settings_.loss_window;
    counted_packets_ = counted_lost_ = 0;
    return false;
  }
  counted_lost_ += lost;
  const double loss =
      static_cast<double>(counted_lost_) / static_cast<double>(counted_lost_ + counted_packets_);
  if (counted_packets_ < settings_.loss_packets || loss <= settings_.loss_threshold) return false;
  const int wanted = level() - 1;
  change_level(now, wanted, sink);
  counting_ = false;
  holdoff_ends_ = now + settings_.loss_holdoff;
  const TraceField fields[] = {{"level", static_cast<double>(wanted)}, {"l", loss}};
  sink.trace("plm.loss", fields);
  return true;
}

void Receiver::timer(Time now, Sink& sink) {
  now = now_ = std::max(now_, now);
  if (now >= rejoin_at_) change_level(now, 1, sink);
}

}  // namespace tiercast::plm
