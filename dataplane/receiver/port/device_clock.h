// The time of a device's clock, which stamps frames on arrival, on CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <functional>

#include "protocols/base/units.h"

namespace tiercast::receiver {

// The rate is that between two readings at least kRateSpan apart; a clock that was set in between
// is measured anew.
class DeviceClock {
 public:
  // Switched off.
  DeviceClock() = default;
  // `read_clock` gives the device's clock in its own unit, or returns false if it cannot; then this
  // is off.
  using ReadClock = std::function<bool(std::uint64_t& ticks)>;
  DeviceClock(ReadClock read_clock, const std::function<Time()>& now);

  bool on() const { return ns_per_tick_ > 0; }
  // About once a second.
  void sync(Time now);
  Time time_of(std::uint64_t ticks) const {
    const auto since = static_cast<std::int64_t>(ticks - anchor_ticks_);
    return anchor_ + Duration::nanoseconds(
                         static_cast<std::int64_t>(static_cast<double>(since) * ns_per_tick_));
  }

  static constexpr Duration kRateSpan = Duration::milliseconds(10);
  static constexpr Duration kStep = Duration::milliseconds(1);  // more than this: it was set

 private:
  ReadClock read_clock_;
  double ns_per_tick_ = 0;
  Time anchor_, base_;
  std::uint64_t anchor_ticks_ = 0, base_ticks_ = 0;
};

}  // namespace tiercast::receiver
