// The rate over the last `window` of time, from a ring of bins (PROTOCOLS 0.3). Constant memory;
// the error is at most one bin, a twentieth of the window.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "protocols/base/units.h"

namespace tiercast {

class RateMeter {
 public:
  // `window` > 0.
  explicit RateMeter(Duration window) : bin_ns_(std::max<std::int64_t>(1, window.ns() / kBins)) {}

  void add(Time now, std::uint64_t bytes) {
    if (!started_) {
      started_ = true;
      since_ = now;
      bin_ = now.ns() / bin_ns_;
    }
    advance(now);
    bins_[index(bin_)] += bytes;
  }

  // The rate of the bytes added within the window before `now`. If the first bytes are more recent
  // than that, the time since then counts instead, but at least one bin.
  Rate rate(Time now) {
    if (!started_) return Rate::zero();
    advance(now);
    std::uint64_t bytes = 0;
    for (const std::uint64_t bin : bins_) bytes += bin;
    // The time covered: whole bins before the current one, and the part of the current bin up to
    // now.
    const std::int64_t covered = std::min<std::int64_t>(
        (now - since_).ns(), (kBins - 1) * bin_ns_ + now.ns() - bin_ * bin_ns_);
    return Rate::bytes_per_second(static_cast<double>(bytes) * 1e9 /
                                  static_cast<double>(std::max(covered, bin_ns_)));
  }

  void reset() {
    bins_ = {};
    started_ = false;
  }

 private:
  static constexpr std::int64_t kBins = 20;

  static std::size_t index(std::int64_t bin) {
    return static_cast<std::size_t>((bin % kBins + kBins) % kBins);
  }
  void advance(Time now) {
    const std::int64_t target = now.ns() / bin_ns_;
    if (target - bin_ >= kBins) bins_ = {};
    for (std::int64_t bin = std::max(bin_ + 1, target - kBins + 1); bin <= target; ++bin) {
      bins_[index(bin)] = 0;
    }
    bin_ = std::max(bin_, target);
  }

  std::array<std::uint64_t, kBins> bins_{};
  std::int64_t bin_ns_;
  std::int64_t bin_ = 0;  // bin of the latest `now`
  Time since_;
  bool started_ = false;
};

}  // namespace tiercast
