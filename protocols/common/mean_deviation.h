// Moving average and mean absolute deviation of a quantity (ERMCC (2), (3); PROTOCOLS 0.3). The
// deviation is measured from the average after the sample has moved it.
#pragma once

#include "protocols/common/ewma.h"

namespace tiercast {

class MeanDeviation {
 public:
  // `weight`: of a new sample, in (0, 1]. `first`: the deviation after the first sample, as a share
  // of that sample; TCP uses 1/2 for times.
  explicit constexpr MeanDeviation(double weight, double first = 0)
      : mean_(weight), deviation_(weight), first_(first) {}

  constexpr void update(double sample) {
    const bool known = mean_.valid();
    mean_.update(sample);
    const double error = mean_.value() - sample;
    deviation_.update(known ? (error < 0 ? -error : error) : first_ * sample);
  }
  // Adopts values that were measured elsewhere.
  constexpr void set(double mean, double deviation) {
    reset();
    mean_.update(mean);
    deviation_.update(deviation);
  }
  constexpr void reset() {
    mean_.reset();
    deviation_.reset();
  }
  // False until the first sample; both values are 0 until then.
  constexpr bool valid() const { return mean_.valid(); }
  constexpr double mean() const { return mean_.value(); }
  constexpr double deviation() const { return deviation_.value(); }

 private:
  Ewma mean_;
  Ewma deviation_;
  double first_;
};

}  // namespace tiercast
