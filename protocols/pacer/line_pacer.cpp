#include "protocols/pacer/line_pacer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "protocols/pacer/limits.h"

namespace tiercast {
namespace {

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
  const auto late_ns = [&] {  // exact; negative: still to come
    return static_cast<double>(now.ns() - entry.due_ns) - entry.due_fraction / kUnit;
  };
  if (!(bytes_per_second > 0)) {
    if (entry.interval_ns > 0) {
      wheel_.remove(layer);
      // An extra packet that has not left is still owed, and comes half an interval early.
      const std::int64_t half_ns = entry.interval_ns / 2;
      const double early = entry.extra ? static_cast<double>(half_ns) : 0;
      if (entry.extra) entry.owed += 1;
      lose(entry, std::max(late_ns() - early, 0.0));
      give_up(entry, entry.owed);
      entry.interval_ns = 0;
      --running_;
    }
    return;
  }
  const double interval =
      std::clamp(std::max<double>(packet_bytes, 1) / bytes_per_second * 1e9, 1.0, kMaxIntervalNs);
  const auto interval_ns = static_cast<std::int64_t>(interval);
  const auto interval_fraction =
      static_cast<std::uint32_t>((interval - static_cast<double>(interval_ns)) * kUnit);
  if (entry.interval_ns > 0) {
    const double late = late_ns();
    const double wait = std::max(-late, 0.0) * (interval / entry.interval());
    lose(entry, std::max(late, 0.0));
    entry.interval_ns = interval_ns;
    entry.interval_fraction = interval_fraction;
    lose(entry, 0);
    const double whole = std::floor(wait);
    wheel_.remove(layer);
    entry.due_fraction = static_cast<std::uint32_t>((wait - whole) * kUnit);
    wheel_.insert(now.ns(), layer, now.ns() + static_cast<std::int64_t>(whole));
    return;
  }
  std::int64_t due_ns = now.ns();
  entry.due_fraction = 0;
  if (entry.last_ns + interval_ns >= due_ns) {
    due_ns = entry.last_ns + interval_ns;
    entry.due_fraction = interval_fraction;
  }
  entry.interval_ns = interval_ns;
  entry.interval_fraction = interval_fraction;
  entry.in_backlog = false;
  entry.extra = false;
  ++running_;
  wheel_.insert(now.ns(), layer, due_ns);
}

std::int64_t LinePacer::catch_up(Entry& entry, Time now, std::int64_t next_ns) {
  entry.extra_share +=
      static_cast<float>(std::min(entry.owed * kCatchUp + 1 / entry.interval(), kMostCatchUp));
  const std::int64_t between_ns = next_ns - entry.interval_ns / 2;
  if (entry.extra_share < 1 || between_ns <= now.ns()) return next_ns;
  entry.extra_share = 0;
  entry.owed -= 1;
  entry.extra = true;
  return between_ns;
}

}  // namespace tiercast
