// RED in real numbers, from its description (Floyd and Jacobson 1993; ns-2 for gentle, wait and
// idle time): an independent calculation, to compare with the program.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tests/p4src/bench.h"

namespace tiercast::p4test {

inline constexpr double kRedWeight = 1 / 512.0;

// p_b, the probability that follows from the average alone. 1 above all thresholds.
inline double red_p_b(const RedParameters& r, double average) {
  if (average < r.min_th) return 0;
  if (average < r.max_th) return r.max_p * (average - r.min_th) / (r.max_th - r.min_th);
  if (r.gentle && average < 2 * r.max_th) {
    return r.max_p + (1 - r.max_p) * (average - r.max_th) / r.max_th;
  }
  return 1;
}

// p_a. `count`: unmarked packets since the last marked one.
inline double red_p_a(const RedParameters& r, double p_b, double count) {
  if (r.wait) {  // the packet itself counts as well
    const double sum = (count + 1) * p_b;
    if (sum < 1) return 0;
    return sum < 2 ? std::min(1.0, p_b / (2 - count * p_b)) : 1;
  }
  return count * p_b < 1 ? std::min(1.0, p_b / (1 - count * p_b)) : 1;
}

struct Spacing {
  double mean, deviation;  // packets from one mark to the next
};

// By RED's law, for a constant average.
inline Spacing red_spacing(const RedParameters& r, double p_b) {
  double mean = 0, square = 0, alive = 1;
  for (int n = 1; alive > 1e-12; ++n) {
    const double here = alive * red_p_a(r, p_b, n - 1);
    mean += here * n;
    square += here * n * n;
    alive -= here;
  }
  return {mean, std::sqrt(std::max(0.0, square - mean * mean))};
}

}  // namespace tiercast::p4test
