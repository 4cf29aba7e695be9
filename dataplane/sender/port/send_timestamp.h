// Lets the device itself time the departures, where it offers RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP.
//
// Follows the device's clock relative to ours. Each buffer then carries the time at which it is to
// leave, on the device's clock. For other devices the worker waits on the TSC.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <functional>

#include "protocols/base/units.h"

namespace tiercast::sender {

class SendTimestamp {
 public:
  // Switched off.
  SendTimestamp() = default;
  // `read_clock` gives the device's clock in its own unit, or returns false if it cannot; then this
  // is off. It is also off if the field in the buffers cannot be registered.
  using ReadClock = std::function<bool(std::uint64_t& ticks)>;
  SendTimestamp(ReadClock read_clock, const std::function<Time()>& now);

  bool on() const { return flag_ != 0; }
  // To be called about once a second: measures the device's clock against ours and follows its
  // drift. If somebody has set it by more than a millisecond, the new time counts from then on.
  void sync(Time now);
  // The device's time that corresponds to our `time`.
  std::uint64_t device_time(Time time) const;
  void mark(rte_mbuf* mbuf, Time due) const;
  // How long before its departure a packet must be handed to the device.
  static constexpr Duration kLead = Duration::microseconds(20);

 private:
  ReadClock read_clock_;
  int offset_ = -1;
  std::uint64_t flag_ = 0;
  // Both clocks at the same instant.
  struct Reading {
    Time time;
    std::uint64_t ticks = 0;
  };
  Reading anchor_;  // the latest reading
  Reading base_;    // the reading from which the rate is measured
  double ticks_per_ns_ = 0;
};

}  // namespace tiercast::sender
