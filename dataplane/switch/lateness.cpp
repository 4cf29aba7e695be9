#include "dataplane/switch/lateness.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tiercast::vswitch {

// Values below 16 have a bucket each; above, an octave [2^k, 2^(k+1)) has 16 buckets.
unsigned LatenessHistogram::bucket_of(std::uint64_t value) {
  if (value < kSubBuckets) return static_cast<unsigned>(value);
  const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - 5;
  return (shift + 1) * kSubBuckets + static_cast<unsigned>((value >> shift) - kSubBuckets);
}

std::uint64_t LatenessHistogram::upper_bound(unsigned bucket) {
  if (bucket < kSubBuckets) return bucket;
  const unsigned shift = bucket / kSubBuckets - 1;
  return ((std::uint64_t{bucket} % kSubBuckets + kSubBuckets + 1) << shift) - 1;
}

void LatenessHistogram::record(std::int64_t lateness_ns) {
  const std::int64_t value = std::max<std::int64_t>(lateness_ns, 0);
  ++buckets_[std::min<unsigned>(bucket_of(static_cast<std::uint64_t>(value)), buckets_.size() - 1)];
  ++count_;
  max_ = std::max(max_, value);
}

std::int64_t LatenessHistogram::quantile(double q) const {
  if (count_ == 0) return 0;
  const auto rank = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (unsigned bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= rank) return std::min(max_, static_cast<std::int64_t>(upper_bound(bucket)));
  }
  return max_;
}

}  // namespace tiercast::vswitch
