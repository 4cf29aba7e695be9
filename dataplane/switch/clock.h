// The two clocks that this program uses, in nanoseconds.
#pragma once

#include <time.h>

#include <cstdint>

namespace tiercast::vswitch {

inline std::int64_t clock_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// The clock of the engine, and of every message of tiercast.v1.
inline std::int64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
// Used only to convert the kernel's receive stamps.
inline std::int64_t realtime_ns() { return clock_ns(CLOCK_REALTIME); }

// When a frame arrived that has this time stamp and is read now; both CLOCK_MONOTONIC. A stamp of
// the future, or more than a second old, is none (a clock was set, or there was no stamp).
inline std::int64_t arrival_ns(std::int64_t stamp_ns, std::int64_t now_ns) {
  return stamp_ns <= now_ns && stamp_ns > now_ns - 1'000'000'000 ? stamp_ns : now_ns;
}

}  // namespace tiercast::vswitch
