#include "dataplane/receiver/port/device_clock.h"

#include <utility>

namespace tiercast::receiver {

DeviceClock::DeviceClock(ReadClock read_clock, const std::function<Time()>& now)
    : read_clock_(std::move(read_clock)) {
  base_ = now();
  if (!read_clock_(base_ticks_)) return;
  while (now() - base_ < kRateSpan) {
  }
  anchor_ = now();
  if (!read_clock_(anchor_ticks_) || anchor_ticks_ == base_ticks_) return;
  ns_per_tick_ = static_cast<double>((anchor_ - base_).ns()) /
                 static_cast<double>(anchor_ticks_ - base_ticks_);
}

void DeviceClock::sync(Time now) {
  std::uint64_t ticks = 0;
  if (!on() || !read_clock_(ticks)) return;
  const Duration error = time_of(ticks) - now;
  anchor_ = now;
  anchor_ticks_ = ticks;
  if (error > kStep || error < Duration::zero() - kStep) {
    base_ = now;
    base_ticks_ = ticks;
  } else if (now - base_ >= kRateSpan && ticks != base_ticks_) {
    ns_per_tick_ =
        static_cast<double>((now - base_).ns()) / static_cast<double>(ticks - base_ticks_);
  }
}

}  // namespace tiercast::receiver
