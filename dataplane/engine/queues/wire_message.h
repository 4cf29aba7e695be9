// A wire's parameters in a message that has an accessor for each of them: tiercast.v1.Wire, which
// the engine does not include.
#pragma once

#include <cstdint>

#include "dataplane/engine/queues/port.h"

namespace tiercast::engine {

// Changes what the message has, and leaves the rest. Delays above the largest stay above it.
template <class Message>
void change_wire(const Message& message, WireConfig& wire) {
  const auto delay = [](std::uint64_t ns) {
    constexpr std::uint64_t kTooLong = WireConfig::kMaxDelayNs + 1;
    return static_cast<std::int64_t>(ns < kTooLong ? ns : kTooLong);
  };
  if (message.has_up()) wire.up = message.up();
  if (message.has_loss()) {
    wire.loss = {.to_bad = message.loss().to_bad(),
                 .to_good = message.loss().to_good(),
                 .in_bad = message.loss().in_bad(),
                 .in_good = message.loss().in_good()};
  }
  if (message.has_jitter_ns()) wire.jitter_ns = delay(message.jitter_ns());
  if (message.has_reorder()) {
    wire.reorder = message.reorder().share();
    wire.reorder_delay_ns = delay(message.reorder().delay_ns());
  }
  if (message.has_duplicate()) wire.duplicate = message.duplicate();
}

}  // namespace tiercast::engine
