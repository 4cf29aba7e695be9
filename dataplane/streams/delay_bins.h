// A histogram of durations that is small enough for a hundred thousand streams.
//
// Below 256 ns there is one bin; above, each power of two has four, up to 2^34 ns (17 s), and what
// is longer is in the last one. So a quantile is at most 25 % above the true value.
// base/histogram.h is eight times as fine, and eighteen times as large.
//
// Delays of one stream often fall into the same bin in a row. They are counted in a DelayRun, which
// the stream keeps beside what every packet changes, and reach their bin when another one follows:
// so a steady stream leaves the bins, which are mostly not in the cache, alone.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "base/counter.h"

namespace tiercast::streams {

// The latest delays, which are all in one bin.
class DelayRun {
 public:
  static constexpr unsigned kMost = 255;

  struct Value {
    std::uint8_t bin = 0;
    std::uint8_t count = 0;
  };
  Value get() const { return value_.load(std::memory_order_relaxed); }
  void set(unsigned bin, unsigned count) {
    value_.store({static_cast<std::uint8_t>(bin), static_cast<std::uint8_t>(count)},
                 std::memory_order_relaxed);
  }

 private:
  std::atomic<Value> value_{};
};

// One thread adds. A copy that another takes meanwhile may lack the latest DelayRun::kMost.
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

  void add(std::int64_t ns, DelayRun& run) {
    const auto bin = static_cast<unsigned>(bin_of(ns));
    const DelayRun::Value latest = run.get();
    if (latest.bin == bin && latest.count < DelayRun::kMost) [[likely]] {
      run.set(bin, latest.count + 1u);
      return;
    }
    run.set(bin, 1);
    bins_[latest.bin].add(latest.count);
  }
  std::uint64_t in_bin(std::size_t bin) const { return bins_[bin].get(); }  // without the run

 private:
  std::array<Counter, kBins> bins_;
};

// A copy of the bins, with the run.
class DelayCounts {
 public:
  DelayCounts(const DelayBins& bins, const DelayRun& run) {
    for (std::size_t bin = 0; bin < bins_.size(); ++bin) bins_[bin] = bins.in_bin(bin);
    const DelayRun::Value latest = run.get();
    bins_[latest.bin] += latest.count;
  }

  std::uint64_t in_bin(std::size_t bin) const { return bins_[bin]; }
  std::uint64_t count() const {
    return std::accumulate(bins_.begin(), bins_.end(), std::uint64_t{0});
  }
  // The bound of the first bin up to which at least `share` (0 .. 1) of the values lie; 0 without
  // values.
  std::int64_t quantile(double share) const {
    const std::uint64_t all = count();
    std::uint64_t below = 0;
    for (std::size_t bin = 0; bin < bins_.size() && all > 0; ++bin) {
      below += bins_[bin];
      if (static_cast<double>(below) >= share * static_cast<double>(all) && below > 0) {
        return DelayBins::upper_bound(bin);
      }
    }
    return 0;
  }

 private:
  std::array<std::uint64_t, DelayBins::kBins> bins_;
};

}  // namespace tiercast::streams
