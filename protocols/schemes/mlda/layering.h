// What both the sender and the receivers compute from rates: the sizes of the layers (MLDA IV-A.1)
// and the subintervals of partial suppression (MLDA (3) to (5)).
#pragma once

#include <array>
#include <cmath>

#include "protocols/base/units.h"
#include "protocols/core/core.h"

namespace tiercast::mlda {

struct Layering {
  unsigned count = 1;                   // y, 1 .. kMaxLayers
  std::array<Rate, kMaxLayers> rate{};  // R_Lk; zero from `count` on

  // C_x, the total rate of layers 0 .. x-1.
  Rate cumulative(unsigned x) const {
    Rate sum;
    for (unsigned k = 0; k < x && k < kMaxLayers; ++k) sum += rate[k];
    return sum;
  }
};

// The base layer has r_min; the enhancement layers have (alpha r_max - r_min) / (K - 1) each. There
// are fewer than K layers if they would be smaller than `min_layer`. 0 < r_min <= r_max; 1 <=
// max_layers.
Layering divide(Rate r_min, Rate r_max, double alpha, unsigned max_layers, Rate min_layer);

// The subintervals R_min (1 + rho)^s .. R_min (1 + rho)^(s+1), s = 0 .. count()-1. Rates outside
// belong to the first or the last one.
class Subintervals {
 public:
  Subintervals(Rate min, Rate max, double rho)
      : min_(min),
        log_step_(std::log1p(rho)),
        count_(static_cast<unsigned>(std::max(1.0, std::ceil(std::log(max / min) / log_step_)))) {}

  unsigned count() const { return count_; }  // S
  unsigned of(Rate rate) const {
    if (!(rate > min_)) return 0;
    const double s = std::floor(std::log(rate / min_) / log_step_);
    return s >= count_ ? count_ - 1 : static_cast<unsigned>(s);
  }

 private:
  Rate min_;
  double log_step_;
  unsigned count_;
};

}  // namespace tiercast::mlda
