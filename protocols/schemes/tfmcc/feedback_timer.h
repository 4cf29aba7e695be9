// When a receiver's report is due within a feedback round (RFC 4654, 4.5): most wait long, so that
// the few early ones speak for all.
#pragma once

#include <algorithm>
#include <cmath>

namespace tiercast::tfmcc {

// t / T, in [0, 1]. `group`: N, more receivers than are expected, > 1; `x`: uniform in (0, 1].
inline double feedback_wait(double group, double x) {
  return std::max(1 + std::log(x) / std::log(group), 0.0);
}

}  // namespace tiercast::tfmcc
