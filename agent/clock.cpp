#include "agent/clock.h"

namespace tiercast::agent {
namespace {

std::int64_t to_ns(const std::timespec& t) { return t.tv_sec * 1'000'000'000LL + t.tv_nsec; }

std::int64_t read_clock(clockid_t clock) {
  std::timespec t{};
  clock_gettime(clock, &t);
  return to_ns(t);
}

}  // namespace

Time monotonic_now() { return Time::nanoseconds(read_clock(CLOCK_MONOTONIC)); }

void StampClock::refresh() {
  const std::int64_t before = read_clock(CLOCK_MONOTONIC);
  const std::int64_t realtime = read_clock(CLOCK_REALTIME);
  const std::int64_t after = read_clock(CLOCK_MONOTONIC);
  offset_ns_ = realtime - (before + (after - before) / 2);
  refreshed_ = Time::nanoseconds(after);
}

Time StampClock::to_monotonic(const std::timespec& stamp) const {
  const Time time = Time::nanoseconds(to_ns(stamp) - offset_ns_);
  if (time > refreshed_ || time + kMaxAge < refreshed_) return refreshed_;
  return time;
}

}  // namespace tiercast::agent
