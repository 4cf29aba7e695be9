// When a receiver's report is due within a feedback round (RFC 4654, 4.5; PROTOCOLS 8): most wait
// long, so that the few early ones speak for all, and those that need a much lower rate are early.
#pragma once

#include <algorithm>
#include <cmath>

#include "protocols/base/units.h"

namespace tiercast::tfmcc {

// In [0, round]. `group`: N, more receivers than are expected, > 1; `x`: uniform in (0, 1].
inline Duration plain_wait(Duration round, double group, double x) {
  return round * std::max(1 + std::log(x) / std::log(group), 0.0);
}

// `ratio`: the receiver's rate to the sender's, X_r / X. At 0.5 and below the timer ends a quarter
// of the round earlier than at 0.9 and above.
inline Duration biased_wait(Duration round, double group, double x, double ratio) {
  const double bias = (std::clamp(ratio, 0.5, 0.9) - 0.5) / 0.4;
  return plain_wait(round, group, x) * 0.75 + round * (0.25 * bias);
}

}  // namespace tiercast::tfmcc
