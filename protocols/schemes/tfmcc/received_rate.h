// X_recv: the rate received over the last round-trip times (RFC 4654, 4.3.4 and 5.6), from bins of
// a quarter of a round-trip time or more. Constant memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "protocols/base/units.h"

namespace tiercast::tfmcc {

class ReceivedRate {
 public:
  static constexpr int kBinsPerRtt = 4;
  static constexpr int kMaxRtts = 4;

  // A packet of so many bytes (IP header and what follows) arrived.
  void add(Time now, std::uint32_t bytes, Duration rtt) {
    if (!started_) {
      started_ = true;
      bin_began_ = last_at_ = now;
      return;
    }
    last_at_ = now;
    open_bytes_ += bytes;
    const Duration lasted = now - bin_began_;
    if (lasted <= Duration::zero() || lasted.ns() < rtt.ns() / kBinsPerRtt) return;
    bins_[bins_closed_ % bins_.size()] = {lasted, open_bytes_};
    ++bins_closed_;
    bin_began_ = now;
    open_bytes_ = 0;
  }

  // Whether a bin is full: before that a rate is no more than a guess.
  bool measured() const { return bins_closed_ > 0; }

  // Over `span` before the last packet and the rest of a bin, or over what there is. Zero until two
  // packets have arrived at different times.
  Rate over(Duration span) const {
    Duration lasted = last_at_ - bin_began_;
    std::uint64_t bytes = open_bytes_;
    for (std::size_t i = 0; i < bins_.size() && i < bins_closed_ && lasted < span; ++i) {
      const Bin& bin = bins_[(bins_closed_ - 1 - i) % bins_.size()];
      lasted = lasted + bin.lasted;
      bytes += bin.bytes;
    }
    if (lasted <= Duration::zero()) return Rate::zero();
    return Rate::bytes_per_second(static_cast<double>(bytes) / lasted.seconds());
  }

 private:
  struct Bin {
    Duration lasted;
    std::uint64_t bytes = 0;
  };
  bool started_ = false;
  Time last_at_;
  Time bin_began_;  // with the arrival of a packet that it does not count
  std::uint64_t open_bytes_ = 0;
  std::array<Bin, static_cast<std::size_t>(kBinsPerRtt* kMaxRtts)> bins_{};
  std::uint64_t bins_closed_ = 0;
};

}  // namespace tiercast::tfmcc
