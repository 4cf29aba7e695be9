#include "protocols/pacer/line_pacer.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace tiercast {
namespace {

constexpr std::uint32_t kMaxLayersPaced = 1'000'000;
constexpr double kMaxIntervalNs = 86400e9;
constexpr double kFraction = 4294967296.0;  // 2^32

std::uint32_t checked(std::uint32_t layers) {
  if (layers >= 1 && layers <= kMaxLayersPaced) return layers;
  throw ConfigError("pacer: layers = " + std::to_string(layers) + " is out of range: valid 1 to " +
                    std::to_string(kMaxLayersPaced));
}

}  // namespace

LinePacer::LinePacer(std::uint32_t layers) : wheel_(checked(layers)) {}

void LinePacer::set_rate(Time now, Layer layer, Rate rate, std::uint32_t packet_bytes) {
  if (layer >= wheel_.size()) return;
  Entry& entry = wheel_[layer];
  const double bytes_per_second = rate.bytes_per_second();
  if (!(bytes_per_second > 0)) {
    if (entry.interval_ns > 0) {
      wheel_.remove(layer);
      entry.interval_ns = 0;
      --running_;
    }
    return;
  }
  const double interval =
      std::clamp(std::max<double>(packet_bytes, 1) / bytes_per_second * 1e9, 1.0, kMaxIntervalNs);
  const auto interval_ns = static_cast<std::int64_t>(interval);
  const auto interval_fraction =
      static_cast<std::uint32_t>((interval - static_cast<double>(interval_ns)) * kFraction);
  if (entry.interval_ns > 0) {
    const std::int64_t wait_ns = entry.due_ns - now.ns();
    if (wait_ns > 0) {
      const double old_interval = static_cast<double>(entry.interval_ns) +
                                  static_cast<double>(entry.interval_fraction) / kFraction;
      const double wait = (static_cast<double>(wait_ns) +
                           static_cast<double>(entry.due_fraction) / kFraction) *
                          (interval / old_interval);
      const double whole = std::floor(wait);
      wheel_.remove(layer);
      entry.due_fraction = static_cast<std::uint32_t>((wait - whole) * kFraction);
      wheel_.insert(now.ns(), layer, now.ns() + static_cast<std::int64_t>(whole));
    }
    entry.interval_ns = interval_ns;
    entry.interval_fraction = interval_fraction;
    return;
  }
  std::int64_t due_ns = now.ns();
  if (entry.departed) due_ns = std::max(due_ns, entry.last_ns + interval_ns);
  entry.interval_ns = interval_ns;
  entry.interval_fraction = interval_fraction;
  entry.due_fraction = 0;
  entry.in_backlog = false;
  entry.debt_ns = 0;
  ++running_;
  wheel_.insert(now.ns(), layer, due_ns);
}

std::int64_t LinePacer::restart(Entry& entry, Time now, std::int64_t due_ns) {
  const std::int64_t next_ns = now.ns() + entry.interval_ns;
  const std::int64_t lost_ns = next_ns - due_ns + entry.debt_ns;
  const std::int64_t debt_ns = std::min(lost_ns, kMaxDebt.ns());
  given_up_ += static_cast<std::uint64_t>((lost_ns - debt_ns) / entry.interval_ns);
  entry.debt_ns = static_cast<std::uint32_t>(debt_ns);
  entry.due_fraction = 0;
  entry.in_backlog = false;
  return next_ns;
}

}  // namespace tiercast
