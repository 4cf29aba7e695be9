// Random early detection (Floyd and Jacobson 1993; PROTOCOLS 2): marks or drops with a probability
// that grows with the average queue length. Lengths are in packets.
#pragma once

#include <cmath>

#include "protocols/base/rng.h"
#include "protocols/base/units.h"

namespace tiercast::testkit {

struct RedConfig {
  double weight = 0.002;  // w_q
  double min_threshold = 5;
  double max_threshold = 15;
  double max_probability = 0.1;  // ns-2's linterm 10, the default when the papers were written
                                 // (PROTOCOLS 2.2)
  bool ecn = false;              // mark ECN-capable packets instead of dropping them
  std::uint64_t seed = 1;
};

class Red {
 public:
  explicit Red(const RedConfig& config) : config_(config), rng_(config.seed) {}

  // Takes a packet that finds `waiting` packets, not counting the one in service. Returns true if
  // it is to be marked or dropped. `service`: the time that a packet takes on this link; while the
  // link is idle, the average decays once in that time.
  bool congested(Time now, double waiting, Duration service) {
    if (!idle_since_.is_never()) {
      const double missed = (now - idle_since_).seconds() / service.seconds();
      average_ *= std::pow(1 - config_.weight, missed);
      idle_since_ = Time::never();
    } else {
      average_ += config_.weight * (waiting - average_);
    }
    if (average_ < config_.min_threshold || waiting < kMinWaiting) {
      count_ = -1;
      return false;
    }
    ++count_;
    if (average_ < config_.max_threshold) {
      const double p_b = config_.max_probability * (average_ - config_.min_threshold) /
                         (config_.max_threshold - config_.min_threshold);
      const double room = 1 - count_ * p_b;
      if (room > 0 && rng_.uniform() >= p_b / room) return false;
    }
    count_ = 0;
    return true;
  }

  void idle(Time now) { idle_since_ = now; }
  double average() const { return average_; }
  const RedConfig& config() const { return config_; }

 private:
  static constexpr double kMinWaiting = 2;  // as in ns-2, a packet that finds fewer is never marked
                                            // or dropped

  RedConfig config_;
  Rng rng_;
  double average_ = 0;
  int count_ = -1;  // packets since the last one marked or dropped
  Time idle_since_ = Time::never();
};

}  // namespace tiercast::testkit
