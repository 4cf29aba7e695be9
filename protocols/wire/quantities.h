// How 32-bit message fields hold quantities: in whole bytes per second and whole microseconds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "protocols/base/units.h"

namespace tiercast::wire {

// Rounded, and clamped to the range of the field.
inline std::uint32_t to_u32(double value) {
  return static_cast<std::uint32_t>(std::clamp(std::round(value), 0.0, 4294967295.0));
}
inline std::uint32_t to_u32(Rate rate) { return to_u32(rate.bytes_per_second()); }
inline std::uint32_t to_u32(Duration duration) { return to_u32(duration.seconds() * 1e6); }

// A host's clock: microseconds modulo 2^32, so that differences below 71 minutes are right.
inline std::uint32_t clock_us(Time now) { return static_cast<std::uint32_t>(now.ns() / 1000); }

}  // namespace tiercast::wire
