// The truncated exponential timer that suppresses feedback of large groups (Nonnenmacher and
// Biersack; PROTOCOLS 0.3): most members wait long, and a few, early, speak for all.
#pragma once

#include <cmath>

#include "protocols/base/units.h"

namespace tiercast {

// A time in [0, longest) with density e^(lambda z/T) * lambda / (T (e^lambda - 1)). `u`: uniform in
// [0, 1); `lambda` > 0.
inline Duration exponential_wait(Duration longest, double lambda, double u) {
  return longest * (std::log1p(u * std::expm1(lambda)) / lambda);
}

}  // namespace tiercast
