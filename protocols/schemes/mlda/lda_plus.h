// LDA+, the enhanced loss-delay based adaptation algorithm (Sisalem and Wolisz; MLDA IV-A,
// PROTOCOLS 7.5). It estimates the share of a path that a competing TCP connection would have.
#pragma once

#include "protocols/base/units.h"

namespace tiercast::mlda {

class LdaPlus {
 public:
  // `initial_increase`: A_init, > 0.
  explicit LdaPlus(Rate initial_increase)
      : initial_increase_(initial_increase), increase_(initial_increase) {}

  struct Path {
    double loss = 0;         // l, 0 .. 1
    Duration rtt;            // tau, > 0
    Rate bottleneck;         // R, > 0; infinity if not known
    double packet_size = 0;  // M, IP bytes
    Duration interval;       // T, time between two adaptations
  };

  // Computes r(m) from r(m-1), which is `rate` > 0.
  Rate adapt(Rate rate, const Path& path);
  // The current A_add.
  Rate increase() const { return increase_; }

 private:
  Rate initial_increase_;
  Rate increase_;
};

}  // namespace tiercast::mlda
