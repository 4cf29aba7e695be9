// CLOCK_MONOTONIC, which all agents and records use, and the conversion of the kernel's receive
// stamps to it.
#pragma once

#include <ctime>

#include "protocols/base/units.h"

namespace tiercast::agent {

Time monotonic_now();

// Receive stamps of sockets (SO_TIMESTAMPNS) use CLOCK_REALTIME, which may be slewed or set.
class StampClock {
 public:
  StampClock() { refresh(); }

  // Measures the offset between the two clocks (three vDSO calls). Once per batch of packets is
  // enough.
  void refresh();

  // The instant of `stamp`. If the result would be after the last refresh, or more than kMaxAge
  // before it, the realtime clock was set in between, and the time of that refresh is returned
  // instead.
  Time to_monotonic(const std::timespec& stamp) const;

  static constexpr Duration kMaxAge = Duration::milliseconds(10'000);

 private:
  Time refreshed_;
  std::int64_t offset_ns_ = 0;  // CLOCK_REALTIME - CLOCK_MONOTONIC
};

}  // namespace tiercast::agent
