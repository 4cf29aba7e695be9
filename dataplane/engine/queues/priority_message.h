// Queues by priority from a message that has an accessor for each of their parameters:
// tiercast.v1.PriorityQueues, which the engine does not include.
#pragma once

#include <optional>

#include "dataplane/engine/queues/port.h"

namespace tiercast::engine {

// nullopt: one queue.
template <class Message>
std::optional<PriorityConfig> read_priority_queues(const Message& message) {
  if (message.queues() < 2) return std::nullopt;
  return PriorityConfig{.low_share = message.low_share()};
}

}  // namespace tiercast::engine
