#include "protocols/testkit/link.h"

#include <algorithm>
#include <utility>

namespace tiercast::testkit {

Link::Link(Simulator& simulator, const LinkConfig& config, PacketSink& to,
           std::uint32_t packet_bytes)
    : Actor(simulator), config_(config), to_(to), packet_bytes_(packet_bytes) {
  set_rate(config.rate);
  if (config.red) red_.emplace(*config.red);
}

void Link::set_rate(Rate rate) {
  config_.rate = rate;
  const double packets_in_20ms = rate.bytes_per_second() * 0.020 / packet_bytes_;
  threshold_ = config_.threshold >= 0
                   ? config_.threshold
                   : std::max(2.0, std::min(5.0, packets_in_20ms));  // PROTOCOLS 3.4
}

void Link::send(const Packet& arriving) {
  Packet packet = arriving;
  if (red_ && config_.rate != Rate::zero() &&
      red_->congested(now(), static_cast<double>(queue_.size()),
                      config_.rate.time_for(packet_bytes_))) {
    if (!red_->config().ecn || !packet.ect) {
      ++stats_.dropped;
      return;
    }
    packet.ce = true;
    ++stats_.marked;
  }
  if (!busy_) {
    start_service(packet, true);
    schedule();
    return;
  }
  const bool full =
      (config_.queue.packets > 0 && queue_.size() >= config_.queue.packets) ||
      (config_.queue.bytes > 0 && queue_bytes_ + packet.ip_length > config_.queue.bytes);
  if (full) {
    ++stats_.dropped;
    return;
  }
  queue_.push_back(packet);
  queue_bytes_ += packet.ip_length;
  stats_.max_queue = std::max(stats_.max_queue, queue_packets());
}

// A packet leaves the queue when its service starts. That is when the average is updated and the
// mark is made.
void Link::start_service(Packet packet, bool was_idle) {
  average_queue_ = was_idle
                       ? 0
                       : average_queue_ + config_.queue_weight *
                                              (static_cast<double>(queue_.size()) - average_queue_);
  if (config_.marking && packet.ect && packet.multicast && average_queue_ > threshold_) {
    const auto top = top_group_.find(packet.session);
    if (top != top_group_.end() && top->second == packet.rank) {
      packet.ce = true;
      ++stats_.marked;
    }
  }
  ++stats_.sent;
  stats_.bytes += packet.ip_length;
  const bool unlimited = config_.rate == Rate::zero();
  const Time ends = unlimited ? now() : now() + config_.rate.time_for(packet.ip_length);
  flying_.push_back({ends + config_.delay, std::move(packet)});
  busy_ = !unlimited;
  service_ends_ = unlimited ? Time::never() : ends;
}

void Link::schedule() {
  const Time arrival = flying_.empty() ? Time::never() : flying_.front().arrives;
  set_call(std::min(arrival, service_ends_));
}

void Link::act() {
  if (busy_ && now() >= service_ends_) {
    busy_ = false;
    service_ends_ = Time::never();
    if (!queue_.empty()) {
      Packet next = std::move(queue_.front());
      queue_.pop_front();
      queue_bytes_ -= next.ip_length;
      start_service(std::move(next), false);
    } else if (red_) {
      red_->idle(now());
    }
  }
  while (!flying_.empty() && flying_.front().arrives <= now()) {
    const Packet packet = std::move(flying_.front().packet);
    flying_.pop_front();
    to_.receive(packet);
  }
  schedule();
}

}  // namespace tiercast::testkit
