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

}  // namespace tiercast::vswitch
