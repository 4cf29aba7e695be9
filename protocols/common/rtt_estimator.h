// Smoothed round-trip time and its deviation, as TCP keeps them (RFC 6298, 2).
#pragma once

#include "protocols/base/units.h"

namespace tiercast {

class RttEstimator {
 public:
  constexpr RttEstimator() = default;
  // Weights of a new sample, in (0, 1].
  explicit constexpr RttEstimator(double weight, double deviation_weight = 0.25)
      : weight_(weight), deviation_weight_(deviation_weight) {}

  // `sample` >= 0.
  constexpr void update(Duration sample) {
    const double r = sample.seconds();
    if (!valid_) {
      srtt_ = r;
      rttvar_ = r / 2;
      valid_ = true;
      return;
    }
    const double error = srtt_ > r ? srtt_ - r : r - srtt_;
    rttvar_ = (1 - deviation_weight_) * rttvar_ + deviation_weight_ * error;
    srtt_ = (1 - weight_) * srtt_ + weight_ * r;
  }

  // False until the first sample; the estimates are zero until then.
  constexpr bool valid() const { return valid_; }
  constexpr Duration srtt() const { return Duration::seconds(srtt_); }
  constexpr Duration rttvar() const { return Duration::seconds(rttvar_); }
  // srtt + 4 rttvar, without RFC 6298's lower bound of a second.
  constexpr Duration timeout() const { return Duration::seconds(srtt_ + 4 * rttvar_); }
  constexpr void reset() { *this = RttEstimator(weight_, deviation_weight_); }

 private:
  double weight_ = 0.125;
  double deviation_weight_ = 0.25;
  double srtt_ = 0;    // s
  double rttvar_ = 0;  // s
  bool valid_ = false;
};

}  // namespace tiercast
