// CLOCK_MONOTONIC, the clock of every agent and record, and the
// kernel's receive stamps brought to it.
#pragma once

#include <ctime>

#include "protocols/base/units.h"

namespace tiercast::agent {

Time monotonic_now();

// Receive stamps of sockets (SO_TIMESTAMPNS) are CLOCK_REALTIME, which may be slewed or set.
class StampClock {
 public:
  StampClock() { refresh(); }

  // Measures the offset between the two clocks again (three vDSO calls). Once
  // per batch of packets is enough.
  void refresh();

  // Instant of `stamp`. A stamp that would lie after the last refresh, or kMaxAge before it, was
  // taken across a step of the clock and is replaced by the time of that refresh.
  Time to_monotonic(const std::timespec& stamp) const;

  static constexpr Duration kMaxAge = Duration::milliseconds(10'000);

 private:
  Time refreshed_;
  std::int64_t offset_ns_ = 0;  // CLOCK_REALTIME - CLOCK_MONOTONIC
};

}  // namespace tiercast::agent
