// X_recv: the rate received over about a round-trip time and at least a few packets. Constant
// memory.
#pragma once

#include <cstdint>

#include "protocols/base/units.h"

namespace tiercast::tfmcc {

class ReceivedRate {
 public:
  static constexpr std::uint32_t kPackets = 4;

  // A packet of so many bytes arrived; `span`: a round-trip time.
  void add(Time now, std::uint32_t bytes, Duration span) {
    if (!started_) {
      started_ = true;
      since_ = now;
      return;
    }
    bytes_ += bytes;
    ++packets_;
    const Duration elapsed = now - since_;
    if (packets_ < kPackets || elapsed < span || elapsed <= Duration::zero()) return;
    rate_ = Rate::bytes_per_second(static_cast<double>(bytes_) / elapsed.seconds());
    valid_ = true;
    since_ = now;
    bytes_ = 0;
    packets_ = 0;
  }
  bool valid() const { return valid_; }
  Rate rate() const { return rate_; }  // zero until valid()

 private:
  bool started_ = false;
  bool valid_ = false;
  Time since_;  // arrival of the last packet before those counted
  std::uint64_t bytes_ = 0;
  std::uint32_t packets_ = 0;
  Rate rate_;
};

}  // namespace tiercast::tfmcc
