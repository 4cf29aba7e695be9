// The round-trip time without synchronised clocks (MLDA IV-A; PROTOCOLS 7.6). It is measured end to
// end now and then. In between it follows the change of the one-way delay, in which the clocks'
// difference cancels out.
#pragma once

#include <algorithm>
#include <cstdint>

#include "protocols/base/serial.h"
#include "protocols/base/units.h"

namespace tiercast::mlda {

// Bounds of a sample, so that neither a stall nor a forged echo stops the adaptation.
inline constexpr Duration kMinRtt = Duration::microseconds(100);
inline constexpr Duration kMaxRtt = Duration::seconds(5);

class RttTracker {
 public:
  // EWMA weights of an end-to-end sample and of a one-way delay, in (0, 1].
  RttTracker(double sample_weight, double delay_weight)
      : sample_weight_(sample_weight), delay_weight_(delay_weight) {}

  // `sample`: measured end to end. `one_way_us`: the receiver's clock minus the sender's time stamp
  // of the packet with the echo; its zero is arbitrary, and it wraps.
  void measured(Time now, Duration sample, std::uint32_t one_way_us) {
    sample = std::clamp(sample, kMinRtt, kMaxRtt);
    rtt_ = valid_ ? rtt_ * (1 - sample_weight_) + sample * sample_weight_ : sample;
    base_ = rtt_;
    base_one_way_us_ = one_way_us;
    measured_at_ = now;
    valid_ = true;
  }

  // tau(t) = tau_i + (D(t) - D0).
  void packet(std::uint32_t one_way_us) {
    if (!valid_) return;
    const Duration change = Duration::microseconds(serial_difference(one_way_us, base_one_way_us_));
    const Duration target = std::clamp(base_ + change, kMinRtt, kMaxRtt);
    rtt_ = rtt_ * (1 - delay_weight_) + target * delay_weight_;
  }

  // Forgets all measurements, as when the sender's clock is another one.
  void reset() { *this = RttTracker(sample_weight_, delay_weight_); }

  bool valid() const { return valid_; }
  Duration rtt() const { return rtt_; }  // only if valid()
  Time measured_at() const { return measured_at_; }

 private:
  double sample_weight_;
  double delay_weight_;
  bool valid_ = false;
  Duration rtt_;
  Duration base_;                      // tau_i
  std::uint32_t base_one_way_us_ = 0;  // D0
  Time measured_at_;
};

}  // namespace tiercast::mlda
