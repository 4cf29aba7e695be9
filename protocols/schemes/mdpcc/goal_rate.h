// The sending rate: linear increase and exponential decrease around the goal rate of the worst path
// (MDP-CC, parameter estimation; PROTOCOLS 6.5).
#pragma once

#include "protocols/base/units.h"
#include "protocols/schemes/mdpcc/representatives.h"
#include "protocols/schemes/mdpcc/settings.h"

namespace tiercast::mdpcc {

class GoalRate {
 public:
  enum class Reason {
    kNone,
    kSlowStart,
    kIncrease,
    kDecrease,
    kUnheard,  // no answer of the CLR
    kIdle,     // nothing to send
  };

  // `packet_size` and `segment_size` in bytes, > 0.
  GoalRate(const Settings& settings, std::uint32_t packet_size, std::uint32_t segment_size);

  void start(Time now, Duration grtt);
  Rate rate() const { return rate_; }
  Rate goal() const { return goal_; }
  bool slow_start() const { return slow_start_; }
  // The rate stays within the floor (a packet per GRTT, at most one per second) and the cap.
  Duration packet_interval() const { return rate_.time_for(packet_size_); }

  // The CLR answered. `sent`: data left since its last answer; without, there is no increase.
  Reason response(Time now, const Representative& clr, bool sent, Duration grtt);
  // Evaluated when a probe is sent: silence halves the rate. `patience`: of max(GRTT, RTT, probe
  // interval).
  Reason no_response(Time now, const Representative* clr, Duration patience, Duration grtt);
  // Another CLR was elected: it gets time to answer.
  void clr_chosen(Time now, Duration rtt);
  Reason idle(Duration grtt);

 private:
  Reason set(Rate rate, Reason reason, Duration grtt);

  const Settings settings_;
  const std::uint32_t packet_size_;
  const std::uint32_t segment_size_;
  Rate rate_;
  Rate goal_;
  bool slow_start_ = true;
  Time adjusted_at_;   // by a response
  Time answered_at_;   // by the CLR
  Time exempt_until_;  // a new CLR's time
  Time unheard_at_;    // the rate was last halved
};

}  // namespace tiercast::mdpcc
