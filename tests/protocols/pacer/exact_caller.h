// Times and rates for packets of 1000 bytes, and a caller of a pacer that is never late.
#pragma once

#include <cstdint>

#include "protocols/base/units.h"

namespace tiercast {

inline constexpr std::uint32_t kBytes = 1000;

inline Time ms(double t) { return Time::zero() + Duration::seconds(t * 1e-3); }
inline Rate interval(double t_ms) { return Rate::bytes_per_second(kBytes / (t_ms * 1e-3)); }

// Calls departed(departure, now) for each departure up to `end`.
template <typename Pacer, typename Departed>
void run_exactly(Pacer& pacer, Time end, Departed departed) {
  while (pacer.next_departure() <= end) {
    const Time now = pacer.next_departure();
    while (const auto departure = pacer.pop(now)) departed(*departure, now);
  }
}

}  // namespace tiercast
