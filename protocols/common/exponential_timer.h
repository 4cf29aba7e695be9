// The truncated exponential timer that suppresses the feedback of large groups (Nonnenmacher and
// Biersack; PROTOCOLS 0.3). Most members wait long; a few answer early and speak for all.
#pragma once

#include <cmath>

#include "protocols/base/units.h"

namespace tiercast {

// A random time in [0, longest) with density e^(lambda z/T) * lambda / (T (e^lambda - 1)), T =
// longest. `u`: uniform in [0, 1). `lambda` > 0.
inline Duration exponential_wait(Duration longest, double lambda, double u) {
  return longest * (std::log1p(u * std::expm1(lambda)) / lambda);
}

}  // namespace tiercast
