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
  check_at_ = rejoin_at_ = Time::never();
}

void Receiver::begin_check(Time now) {
  check_at_ = now + settings_.check;
  samples_ = 0;
}

// Samples and losses from before say nothing about the new level.
void Receiver::change_level(Time now, int wanted, Sink& sink) {
  const bool down = wanted < level();
  for (int rank = level(); rank < wanted; ++rank) {
    first_[static_cast<std::size_t>(rank)].valid = false;
  }
  reception_.subscribe(wanted - 1, sink);
  begin_check(now);
  if (wanted == 0) {
    check_at_ = Time::never();
    rejoin_at_ = now + settings_.rejoin;
  }
  window_began_ = down ? now + settings_.loss_holdoff : now;
  window_packets_ = window_lost_ = 0;
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
  const std::uint32_t lost = reception_.receive(now, data.rank, data.seq, arrival);

  First& first = first_[data.rank];
  if (data.pair == 1) {
    first = {true, data.seq, now};
  } else if (first.valid && data.seq == first.seq + 1 && now > first.at) {
    first.valid = false;
    on_pair(now, Rate::bytes_per_second(arrival.ip_length / (now - first.at).seconds()), sink);
  }
  if (reception_.top() >= 0) on_packets(now, lost + (arrival.ce && settings_.ecn ? 1 : 0), sink);
}

int Receiver::level_for(Rate share) const {
  int wanted = 0;
  while (wanted < static_cast<int>(config_.layers) && settings_.cumulative(wanted + 1) < share) {
    ++wanted;
  }
  return wanted;
}

// Goes down at once, at the first pair that asks for it. Goes up only as far as the smallest share
// of a check period allows.
void Receiver::on_pair(Time now, Rate share, Sink& sink) {
  least_ = samples_ == 0 ? share : std::min(least_, share);
  ++samples_;
  if (share >= settings_.cumulative(level())) return;
  const int wanted = std::min(level_for(share), level() - 1);
  change_level(now, wanted, sink);
  const TraceField fields[] = {{"level", static_cast<double>(wanted)},
                               {"share_Bps", share.bytes_per_second()}};
  sink.trace("plm.drop", fields);
}

void Receiver::on_packets(Time now, std::uint32_t lost, Sink& sink) {
  if (now < window_began_) return;
  if (now - window_began_ > settings_.loss_window) {
    window_began_ = now;
    window_packets_ = window_lost_ = 0;
  }
  ++window_packets_;
  window_lost_ += lost;
  const auto all = static_cast<double>(window_packets_ + window_lost_);
  const double loss = static_cast<double>(window_lost_) / all;
  if (all < settings_.loss_packets || loss <= settings_.loss_threshold) return;
  const int wanted = level() - 1;
  change_level(now, wanted, sink);
  const TraceField fields[] = {{"level", static_cast<double>(wanted)}, {"l", loss}};
  sink.trace("plm.loss", fields);
}

void Receiver::timer(Time now, Sink& sink) {
  now = now_ = std::max(now_, now);
  if (now >= rejoin_at_) {
    rejoin_at_ = Time::never();
    change_level(now, 1, sink);
    return;
  }
  if (now < check_at_) return;
  const int wanted = samples_ >= settings_.check_samples ? level_for(least_) : level();
  const Rate share = least_;
  begin_check(now);
  if (wanted <= level()) return;
  change_level(now, wanted, sink);
  const TraceField fields[] = {{"level", static_cast<double>(wanted)},
                               {"share_Bps", share.bytes_per_second()}};
  sink.trace("plm.join", fields);
}

}  // namespace tiercast::plm
