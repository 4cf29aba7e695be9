#include "agent/histogram.h"

#include <cmath>

namespace tiercast::agent {

std::uint64_t Histogram::upper_bound(std::size_t bin) {
  if (bin < (2u << kSubBits)) return bin;
  const unsigned shift = static_cast<unsigned>(bin >> kSubBits) - 1;
  const std::uint64_t mantissa = (bin & ((1u << kSubBits) - 1)) | (1u << kSubBits);
  return ((mantissa + 1) << shift) - 1;
}

void Histogram::add(Duration value) {
  const std::int64_t ns = std::max<std::int64_t>(value.ns(), 0);
  ++bins_[bin_of(static_cast<std::uint64_t>(ns))];
  ++count_;
  max_ = std::max(max_, ns);
}

void Histogram::add(const Histogram& other) {
  for (std::size_t bin = 0; bin < kBins; ++bin) bins_[bin] += other.bins_[bin];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

Histogram Histogram::since(const Histogram& before) const {
  Histogram added;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const std::uint64_t count = bins_[bin] - before.bins_[bin];
    if (count == 0) continue;
    added.add_to_bin(bin, count);
    added.max_ = std::min(max_, static_cast<std::int64_t>(upper_bound(bin)));
  }
  return added;
}

Duration Histogram::quantile(double share) const {
  if (count_ == 0) return Duration::zero();
  const auto wanted = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    seen += bins_[bin];
    if (seen >= wanted) {
      return Duration::nanoseconds(std::min(max_, static_cast<std::int64_t>(upper_bound(bin))));
    }
  }
  return max();
}

}  // namespace tiercast::agent
