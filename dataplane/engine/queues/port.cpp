#include "dataplane/engine/queues/port.h"

#include <cmath>

#include "dataplane/engine/queues/priority_queues.h"
#include "dataplane/engine/queues/red.h"
#include "dataplane/engine/queues/wire.h"

namespace tiercast::engine {

std::string wrong(const PortConfig& config) {
  constexpr double kMaxRate = 1e15;
  constexpr std::int64_t kMaxDelay = 1'000'000'000'000'000;
  const double rate = config.rate_bps;
  if (!std::isfinite(rate) || rate < 0 || rate > kMaxRate || (rate > 0 && rate < 1)) {
    return "rate " + std::to_string(rate) + " bit/s, valid: 0 (unlimited) or 1 to 1e15";
  }
  for (const std::int64_t delay : {config.delay_ns, config.rx_delay_ns}) {
    if (delay < 0 || delay > kMaxDelay) {
      return "delay " + std::to_string(delay) + " ns, valid: 0 to 1e15";
    }
  }
  for (const WireConfig& wire : {config.wire, config.rx_wire}) {
    if (std::string what = Wire::wrong(wire); !what.empty()) return what;
  }
  if (config.red) {
    if (const std::string what = Red::wrong(*config.red); !what.empty()) return "red: " + what;
  }
  if (config.layered && !config.fair_queueing) {
    return "layered without fair queueing, valid: both";
  }
  return PriorityQueues::wrong(config.priority, config.fair_queueing);
}

}  // namespace tiercast::engine
