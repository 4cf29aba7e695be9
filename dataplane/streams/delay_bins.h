// A histogram of durations that is small enough for a hundred thousand streams.
//
// Below 256 ns there is one bin; above, each power of two has four, up to 2^34 ns (17 s), and what
// is longer is in the last one. So a quantile is at most 25 % above the true value.
// base/histogram.h is eight times as fine, and eighteen times as large.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/counter.h"

namespace tiercast::streams {

class DelayBins {
 public:
  static constexpr unsigned kFirstBits = 8;
  static constexpr unsigned kLastBits = 34;
  static constexpr std::size_t kBins = 1 + (kLastBits - kFirstBits) * 4;

  static std::size_t bin_of(std::int64_t ns) {
    if (ns < 1 << kFirstBits) return 0;
    const auto value = static_cast<std::uint64_t>(ns);
    const unsigned bits = static_cast<unsigned>(std::bit_width(value)) - 1;
    if (bits >= kLastBits) return kBins - 1;
    return 1 + (bits - kFirstBits) * 4 + (value >> (bits - 2) & 3);
  }
  // The largest value in `bin`, in ns.
  static std::int64_t upper_bound(std::size_t bin) {
    if (bin == 0) return (1 << kFirstBits) - 1;
    const std::size_t bits = kFirstBits + (bin - 1) / 4;
    return (static_cast<std::int64_t>(5 + (bin - 1) % 4) << (bits - 2)) - 1;
  }

  void add(std::int64_t ns) { bins_[bin_of(ns)].add(); }
  void prefetch(std::int64_t ns) const { __builtin_prefetch(&bins_[bin_of(ns)], 1); }
  std::uint64_t in_bin(std::size_t bin) const { return bins_[bin].get(); }
  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (const Counter& bin : bins_) sum += bin.get();
    return sum;
  }
  // The bound of the first bin up to which at least `share` (0 .. 1) of the values lie; 0 without
  // values.
  std::int64_t quantile(double share) const {
    const std::uint64_t all = count();
    std::uint64_t below = 0;
    for (std::size_t bin = 0; bin < kBins && all > 0; ++bin) {
      below += bins_[bin].get();
      if (static_cast<double>(below) >= share * static_cast<double>(all) && below > 0) {
        return upper_bound(bin);
      }
    }
    return 0;
  }

 private:
  std::array<Counter, kBins> bins_;
};

}  // namespace tiercast::streams
