// The receivers that the sender probes: the current limiting receiver (CLR) and up to four
// candidates to succeed it (MDP-CC, "parameter estimation"; PROTOCOLS 6.5).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "protocols/base/units.h"
#include "protocols/common/rtt_estimator.h"
#include "protocols/schemes/mdpcc/messages.h"

namespace tiercast::mdpcc {

struct Representative {
  std::uint32_t id = 0;
  RttEstimator rtt;
  double loss = 0;              // loss event rate, 0 .. 1
  Rate rate;                    // goal rate of its path
  bool start = false;           // slow start: no loss event yet
  bool rtt_confirmed = false;   // whether the receiver used an RTT of its own
  std::uint16_t probe_seq = 0;  // latest probe that it answered
  Time heard_at;
  std::uint32_t heard_probe = 0;  // number of probes sent up to that answer
};

class Representatives {
 public:
  // `capacity`: 1 .. 5.
  explicit Representatives(unsigned capacity) : capacity_(capacity) {}

  // The effect of a report on the list.
  enum class Change { kNone, kUpdated, kJoined, kNewClr };
  // Takes a receiver's state from its report. `candidate` may be in the list already.
  Change offer(const Representative& candidate);
  // Removes a receiver that has left or is silent. True if it was the CLR; the one with the lowest
  // rate succeeds it.
  bool remove(std::uint32_t id);
  void clear() { count_ = 0; }

  std::size_t size() const { return count_; }
  const Representative* clr() const { return count_ > 0 ? &list_[0] : nullptr; }
  const Representative* find(std::uint32_t id) const;
  const Representative& operator[](std::size_t i) const { return list_[i]; }  // [0]: the CLR

 private:
  void elect_lowest();
  void insert(const Representative& candidate);

  const std::size_t capacity_;
  std::array<Representative, wire::MdpccProbe::kMaxRecords> list_{};
  std::size_t count_ = 0;
};

}  // namespace tiercast::mdpcc
