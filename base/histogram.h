// Quantiles of durations at a fixed cost, by a log-linear histogram.
//
// Values are nanoseconds, 0 .. 2^63-1; a negative value counts as 0. Below 64 ns each value has its
// own bin; above that, each power of two has 32 bins. So a quantile is at most 3.2 % above the true
// value.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tiercast {

class Histogram {
 public:
  void add(std::int64_t ns);
  void add(const Histogram& other);
  void reset() { *this = Histogram(); }
  // The values added since `before`, which is an earlier copy. Their max() may be too high by the
  // width of a bin.
  Histogram since(const Histogram& before) const;

  std::uint64_t count() const { return count_; }
  std::int64_t max() const { return max_; }  // exact; 0 if empty

  // For callers that store the bins themselves.
  static constexpr unsigned kSubBits = 5;
  static constexpr std::size_t kBins = (64 - kSubBits) << kSubBits;
  // Values below 2^(kSubBits+1) have their own bin. Above that, the bin number consists of the
  // exponent and the kSubBits bits below the leading one.
  static std::size_t bin_of(std::uint64_t value) {
    if (value < (2u << kSubBits)) return value;
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - (kSubBits + 1);
    return (static_cast<std::size_t>(shift) << kSubBits) + (value >> shift);
  }
  static std::uint64_t upper_bound(std::size_t bin);  // the largest value in `bin`
  void add_to_bin(std::size_t bin, std::uint64_t count) {
    bins_[bin] += count;
    count_ += count;
  }
  void raise_max(std::int64_t ns) { max_ = std::max(max_, ns); }
  std::uint64_t in_bin(std::size_t bin) const { return bins_[bin]; }

  // The smallest bin bound that at least `share` (0 .. 1) of the values do not exceed. Never above
  // max(). 0 if there are no values.
  std::int64_t quantile(double share) const;

 private:
  std::array<std::uint64_t, kBins> bins_{};
  std::uint64_t count_ = 0;
  std::int64_t max_ = 0;
};

}  // namespace tiercast
