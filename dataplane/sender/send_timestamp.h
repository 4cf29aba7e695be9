// Departure by the device itself, where it offers RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP.
//
// Follows the device's clock beside ours; each buffer then carries the time at which it is to
// leave, in the device's clock. For devices without it, the worker waits on the TSC.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <functional>

#include "protocols/base/units.h"

namespace tiercast::sender {

class SendTimestamp {
 public:
  // Off.
  SendTimestamp() = default;
  // `read_clock` gives the device's clock, in its own unit; false if it cannot. Off where it
  // cannot, or where the field cannot be registered.
  using ReadClock = std::function<bool(std::uint64_t& ticks)>;
  SendTimestamp(ReadClock read_clock, const std::function<Time()>& now);

  bool on() const { return flag_ != 0; }
  // About once a second: measures the device's clock against ours and follows its drift. If
  // somebody has set the clock by more than a millisecond, its new time counts from now on.
  void sync(Time now);
  // The device's time at our `time`.
  std::uint64_t device_time(Time time) const;
  void mark(rte_mbuf* mbuf, Time due) const;
  // How long before its departure a packet is handed to the device.
  static constexpr Duration kLead = Duration::microseconds(20);

 private:
  ReadClock read_clock_;
  int offset_ = -1;
  std::uint64_t flag_ = 0;
  // Both clocks at one instant.
  struct Reading {
    Time time;
    std::uint64_t ticks = 0;
  };
  Reading anchor_;  // the last one
  Reading base_;    // from which the rate is measured
  double ticks_per_ns_ = 0;
};

}  // namespace tiercast::sender
