// Figures that one thread writes and others read, without locks or copies.
//
// Each Counter and SharedHistogram has one thread that writes it. A reader sees each figure whole,
// but not all figures at the same instant.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/histogram.h"

namespace tiercast {

class Counter {
 public:
  void add(std::uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void set(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// The bins of a Histogram.
class SharedHistogram {
 public:
  void add(std::int64_t ns) {
    const auto value = static_cast<std::uint64_t>(ns > 0 ? ns : 0);
    bins_[Histogram::bin_of(value)].add();
    if (value > max_.load(std::memory_order_relaxed)) {
      max_.store(value, std::memory_order_relaxed);
    }
  }
  Histogram read() const {
    Histogram histogram;
    for (std::size_t bin = 0; bin < bins_.size(); ++bin) {
      histogram.add_to_bin(bin, bins_[bin].get());
    }
    histogram.raise_max(static_cast<std::int64_t>(max_.load(std::memory_order_relaxed)));
    return histogram;
  }

 private:
  std::array<Counter, Histogram::kBins> bins_;
  std::atomic<std::uint64_t> max_{0};
};

}  // namespace tiercast
