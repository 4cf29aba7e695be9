// How late frames left: a histogram of (actual - due) time with buckets of at most 1/16 of their
// value, so a quantile is read within 6.25 %. Constant memory; record() costs a few instructions.
#pragma once

#include <array>
#include <cstdint>

namespace tiercast::vswitch {

class LatenessHistogram {
 public:
  // lateness_ns: below 0 counts as 0.
  void record(std::int64_t lateness_ns);
  // Upper bound of the bucket that holds quantile q (0..1), at most the maximum; 0 if empty. In ns.
  std::int64_t quantile(double q) const;
  std::int64_t max() const { return max_; }  // ns
  std::uint64_t count() const { return count_; }
  void reset() { *this = LatenessHistogram(); }

 private:
  static constexpr unsigned kSubBuckets = 16;
  static constexpr unsigned kOctaves = 60;
  static unsigned bucket_of(std::uint64_t value);
  static std::uint64_t upper_bound(unsigned bucket);

  std::array<std::uint32_t, kSubBuckets * kOctaves> buckets_{};
  std::uint64_t count_ = 0;
  std::int64_t max_ = 0;
};

}  // namespace tiercast::vswitch
