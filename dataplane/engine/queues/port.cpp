#include "dataplane/engine/queues/port.h"

#include <cmath>
#include <cstdlib>
#include <utility>

#include "dataplane/engine/packet/packet_pool.h"
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
  for (const auto& [name, delay] :
       {std::pair("delay", config.delay_ns), std::pair("rx_delay", config.rx_delay_ns)}) {
    if (delay < 0 || delay > kMaxDelay) {
      return name + (" " + std::to_string(delay)) + " ns, valid: 0 to 1e15";
    }
  }
  if (std::abs(std::int64_t{config.overhead_bytes}) > kMaxFrameBytes) {
    return "overhead " + std::to_string(config.overhead_bytes) + " bytes, valid: -65535 to 65535";
  }
  for (const auto& [name, wire] :
       {std::pair("wire", &config.wire), std::pair("rx_wire", &config.rx_wire)}) {
    if (const std::string what = Wire::wrong(*wire); !what.empty()) {
      return name + (": " + what);
    }
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
