// The sending rate: linear increase and exponential decrease around the goal rate of the worst path
// (MDP-CC, "parameter estimation"; PROTOCOLS 6.5).
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
    kUnheard,  // the CLR does not answer
    kIdle,     // there is nothing to send
  };

  // `packet_size` and `segment_size` in bytes, > 0.
  GoalRate(const Settings& settings, std::uint32_t packet_size, std::uint32_t segment_size);

  void start(Time now, Duration grtt);
  Rate rate() const { return rate_; }
  Rate goal() const { return goal_; }
  bool slow_start() const { return slow_start_; }
  // The rate stays between the floor (a packet per GRTT, but at most one per second) and the cap.
  Duration packet_interval() const { return rate_.time_for(packet_size_); }

  // The CLR answered. `sent`: whether data has left since its last answer; if not, the rate does
  // not rise.
  Reason response(Time now, const Representative& clr, bool sent, Duration grtt);
  // To be called when a probe is sent. Silence halves the rate. `patience`: a multiple of max(GRTT,
  // RTT, probe interval).
  Reason no_response(Time now, const Representative* clr, Duration patience, Duration grtt);
  // Another CLR was elected. It gets time to answer.
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
  Time adjusted_at_;   // time of the last adjustment by a response
  Time answered_at_;   // time of the CLR's last answer
  Time exempt_until_;  // end of the time that a new CLR is given
  Time unheard_at_;    // when the rate was last halved for silence
};

}  // namespace tiercast::mdpcc
