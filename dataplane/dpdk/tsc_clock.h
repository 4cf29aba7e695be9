// CLOCK_MONOTONIC, read from the processor's time stamp counter in a few nanoseconds.
#pragma once

#include <rte_cycles.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "agent/clock.h"
#include "protocols/base/units.h"

namespace tiercast::dpdk {

// One thread calls everything. Between two calls of sync() the clock runs at the TSC's rate, as
// measured since its construction. The constructor takes 10 ms for the first measurement, because
// rte_get_tsc_hz() rounds to 10 MHz and may be 0.2 % off. sync() steers the clock towards
// CLOCK_MONOTONIC only by its rate, so it never jumps or goes back.
class TscClock {
 public:
  TscClock() : first_(read()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    anchor_ = read();
    multiplier_ = static_cast<std::uint64_t>(rate(anchor_) * kOne);
  }

  Time now() const { return at(rte_rdtsc()); }
  Time at(std::uint64_t tsc) const {
    const auto elapsed = static_cast<unsigned __int128>(tsc - anchor_.tsc) * multiplier_;
    return Time::nanoseconds(anchor_.ns + static_cast<std::int64_t>(elapsed >> kShift));
  }

  // To be called about once a second. Corrects the offset within the next two seconds, by at most
  // 0.05 % of the rate.
  void sync() {
    const Reading reading = read();
    const std::int64_t own_ns = at(reading.tsc).ns();
    const double correction =
        std::clamp(static_cast<double>(reading.ns - own_ns) / 2e9, -kMaxTurn, kMaxTurn);
    anchor_ = {reading.tsc, own_ns};
    multiplier_ = static_cast<std::uint64_t>(rate(reading) * (1 + correction) * kOne);
  }

 private:
  struct Reading {
    std::uint64_t tsc;
    std::int64_t ns;
  };
  // Reads both clocks at the same instant. Of several tries it uses the shortest, which was not
  // interrupted.
  static Reading read() {
    Reading best{};
    std::uint64_t least = UINT64_MAX;
    for (int i = 0; i < 5; ++i) {
      const std::uint64_t before = rte_rdtsc();
      const std::int64_t ns = agent::monotonic_now().ns();
      const std::uint64_t took = rte_rdtsc() - before;
      if (took < least) {
        least = took;
        best = {before + took / 2, ns};
      }
    }
    return best;
  }

  // ns per tick, from the first reading to the given one.
  double rate(const Reading& reading) const {
    return static_cast<double>(reading.ns - first_.ns) /
           static_cast<double>(reading.tsc - first_.tsc);
  }

  static constexpr unsigned kShift = 48;
  static constexpr double kOne = static_cast<double>(1ull << kShift);
  static constexpr double kMaxTurn = 5e-4;

  const Reading first_;
  Reading anchor_;
  std::uint64_t multiplier_;  // ns per tick, 2^-48
};

// When a receiving thread calls sync(): once a second, however busy it is.
class SyncTurns {
 public:
  // `polls`: the thread never sleeps. Reading the clock is dear beside a turn that took frames, so
  // it looks only now and then.
  template <typename Clock>
  SyncTurns(const Clock& clock, bool polls)
      : turns_per_look_(polls ? 1024 : 1), next_(clock.now() + kInterval) {}

  // To be called once in each turn.
  template <typename Clock>
  bool due(const Clock& clock) {
    if (++turns_ % turns_per_look_ != 0) return false;
    const Time now = clock.now();
    if (now < next_) return false;
    next_ = now + kInterval;
    return true;
  }

 private:
  static constexpr Duration kInterval = Duration::milliseconds(1000);

  const std::uint64_t turns_per_look_;
  Time next_;
  std::uint64_t turns_ = 0;
};

}  // namespace tiercast::dpdk
