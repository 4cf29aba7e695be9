#include "dataplane/engine/queues/priority_queues.h"

namespace tiercast::engine {

std::string PriorityQueues::wrong(const std::optional<PriorityConfig>& config, bool fair) {
  if (!config) return {};
  if (fair) return "fair queueing and queues by priority, valid: one of them";
  const double share = config->low_share;
  if (share >= 0 && share < 1) return {};  // and no NaN
  return "low_share " + std::to_string(share) + ", valid: 0 or more, below 1";
}

QueueDiscipline::Length PriorityQueues::limited(std::uint32_t) const {
  const Length &low = queues_[kLow].length, &high = queues_[kHigh].length;
  return {low.packets + high.packets, low.bytes + high.bytes};
}

void PriorityQueues::push(std::uint32_t number, Packet* packet) {
  Queue& queue = queues_[number];
  queue.waiting.push(packet);
  ++queue.length.packets;
  queue.length.bytes += packet->queue_bytes;
}

std::uint32_t PriorityQueues::next() const {
  const PacketList &low = queues_[kLow].waiting, &high = queues_[kHigh].waiting;
  if (high.empty()) return kLow;
  if (low.empty() || low_per_high_ == 0) return kHigh;
  return low_credit_ >= low.head()->queue_bytes ? kLow : kHigh;
}

Packet* PriorityQueues::pop() {
  const bool both = !queues_[kLow].waiting.empty() && !queues_[kHigh].waiting.empty();
  const std::uint32_t number = next();
  Queue& queue = queues_[number];
  Packet* packet = queue.waiting.pop();
  --queue.length.packets;
  queue.length.bytes -= packet->queue_bytes;
  // Credit is for time in which the lower queue had to wait.
  if (!both) {
    low_credit_ = 0;
  } else if (number == kLow) {
    low_credit_ -= packet->queue_bytes;
  } else {
    low_credit_ += low_per_high_ * packet->queue_bytes;
  }
  return packet;
}

}  // namespace tiercast::engine
