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
      owe(entry, std::max(late_ns(), 0.0) + entry.debt_ns, 0);
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
    const double scale = interval / entry.interval();  // keeps the debt the same in packets
    const double wait = std::max(-late_ns(), 0.0) * scale;
    const double owed = (std::max(late_ns(), 0.0) + entry.debt_ns) * scale;
    entry.interval_ns = interval_ns;
    entry.interval_fraction = interval_fraction;
    if (owed > 0) owe(entry, owed, static_cast<double>(kMaxDebt.ns()));
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
  entry.debt_ns = 0;
  ++running_;
  wheel_.insert(now.ns(), layer, due_ns);
}

std::int64_t LinePacer::restart(Entry& entry, Time now, std::int64_t due_ns) {
  const std::int64_t next_ns = now.ns() + entry.interval_ns;
  const double fraction =
      (static_cast<double>(entry.interval_fraction) - entry.due_fraction) / kUnit;
  owe(entry, static_cast<double>(next_ns - due_ns) + fraction + entry.debt_ns,
      static_cast<double>(kMaxDebt.ns()));
  entry.due_fraction = entry.interval_fraction;
  entry.in_backlog = false;
  return next_ns;
}

void LinePacer::owe(Entry& entry, double lost_ns, double max_debt_ns) {
  entry.debt_ns = static_cast<std::uint32_t>(std::min(lost_ns, max_debt_ns));
  const double packets = entry.left_out + (lost_ns - entry.debt_ns) / entry.interval();
  const auto whole = static_cast<std::uint64_t>(packets);
  given_up_ += whole;
  entry.left_out = packets - static_cast<double>(whole);
}

}  // namespace tiercast
