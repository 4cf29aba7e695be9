// The receivers that the sender probes: the current limiting receiver (CLR) and up to four that
// may come after it (MDP-CC, parameter estimation; PROTOCOLS 6.5).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "protocols/base/units.h"
#include "protocols/common/rtt_estimator.h"
#include "protocols/wire/mdpcc.h"

namespace tiercast::mdpcc {

struct Representative {
  std::uint32_t id = 0;
  RttEstimator rtt;
  double loss = 0;              // loss event rate, 0 .. 1
  Rate rate;                    // goal rate of its path
  bool start = false;           // slow start: no loss event yet
  bool rtt_confirmed = false;   // the receiver computed with its own RTT
  std::uint16_t probe_seq = 0;  // answered last
  Time heard_at;
  std::uint32_t heard_probe = 0;  // probes sent until then
};

class Representatives {
 public:
  // `capacity`: 1 .. 5.
  explicit Representatives(unsigned capacity) : capacity_(capacity) {}

  // What a report did to the list.
  enum class Change { kNone, kUpdated, kJoined, kNewClr };
  // Takes a report of this state; `candidate` may be in the list already.
  Change offer(const Representative& candidate);
  // The receiver has left, or is silent. True if it was the CLR; the lowest rate is elected.
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
