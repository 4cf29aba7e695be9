// CLOCK_MONOTONIC read from the processor's time stamp counter: a few nanoseconds a reading.
#pragma once

#include <rte_cycles.h>

#include <algorithm>
#include <cstdint>

#include "agent/clock.h"
#include "protocols/base/units.h"

namespace tiercast::sender {

// One thread calls everything. Between two sync() it runs at the TSC's measured rate; each sync()
// turns it towards CLOCK_MONOTONIC by its rate alone, so that it never jumps nor goes back.
class TscClock {
 public:
  TscClock() : anchor_tsc_(rte_rdtsc()), anchor_ns_(agent::monotonic_now().ns()) {
    nominal_ = static_cast<std::uint64_t>(1e9 / static_cast<double>(rte_get_tsc_hz()) * kOne);
    multiplier_ = nominal_;
  }

  Time now() const { return at(rte_rdtsc()); }
  Time at(std::uint64_t tsc) const {
    const auto elapsed = static_cast<unsigned __int128>(tsc - anchor_tsc_) * multiplier_;
    return Time::nanoseconds(anchor_ns_ + static_cast<std::int64_t>(elapsed >> kShift));
  }

  // About once a second. What it is ahead or behind is made good within the next two seconds, at
  // most by 0.05 % of its rate.
  void sync() {
    const std::uint64_t tsc = rte_rdtsc();
    const std::int64_t true_ns = agent::monotonic_now().ns();
    const std::int64_t own_ns = at(tsc).ns();
    const double correction =
        std::clamp(static_cast<double>(true_ns - own_ns) / 2e9, -kMaxTurn, kMaxTurn);
    anchor_tsc_ = tsc;
    anchor_ns_ = own_ns;
    multiplier_ = static_cast<std::uint64_t>(static_cast<double>(nominal_) * (1 + correction));
  }

 private:
  static constexpr unsigned kShift = 48;
  static constexpr double kOne = static_cast<double>(1ull << kShift);
  static constexpr double kMaxTurn = 5e-4;

  std::uint64_t anchor_tsc_;
  std::int64_t anchor_ns_;
  std::uint64_t nominal_ = 0;  // ns per tick, 2^-48
  std::uint64_t multiplier_ = 0;
};

}  // namespace tiercast::sender
