// The receivers that RLA's sender knows (PROTOCOLS 5.2, 5.5), and the extremes among them, which
// are recomputed once per RTT instead of with each acknowledgement.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "protocols/base/units.h"
#include "protocols/common/departures.h"
#include "protocols/common/id_table.h"
#include "protocols/common/rtt_estimator.h"
#include "protocols/schemes/rla/listening.h"
#include "protocols/schemes/rla/settings.h"

namespace tiercast::rla {

struct Member {
  bool active = false;
  bool dropped = false;  // for being slow; it stays known, so that it cannot come back
  bool recheck = false;  // there are holes to judge again
  std::uint32_t slot = 0;
  std::uint32_t source = 0;
  std::uint32_t address = 0;
  std::uint32_t judged = 0;      // for all packets before it, losses have been decided
  std::uint32_t recheck_at = 0;  // judge again when the receiver's reach gets here
  std::uint32_t rwnd = 1;        // packets
  unsigned timeouts = 0;         // in a row without progress
  Time heard;
  Time rexmit_now_at = Time::never();  // when its last request for a repair was granted
  RttEstimator rtt;
  Proof proof;  // of the packets that it has
  Listener listener{1, 0};
};

class Members {
 public:
  explicit Members(const Settings& settings);

  Member* find(std::uint32_t source);
  const Member* find(std::uint32_t source) const;
  Member& at(std::uint32_t slot) { return members_[slot]; }
  // Adds an active member; null if there is no room. `packets_sent`: so far.
  Member* add(Time now, std::uint32_t source, std::uint32_t address, std::uint64_t packets_sent);
  void erase(const Member& member) { table_.erase(member.source); }

  template <class Action>
  void for_each_active(Action action) {
    for (std::uint32_t slot = 0; slot < used_; ++slot) {
      if (members_[slot].active) action(members_[slot]);
    }
  }
  // All members, including dropped ones.
  template <class Action>
  void for_each_known(Action action) {
    for (std::uint32_t slot = 0; slot < used_; ++slot) {
      if (members_[slot].active || members_[slot].dropped) action(members_[slot]);
    }
  }

  // Takes what an acknowledgement says about its sender. `sample`: of the round-trip time;
  // negative: none.
  void heard(Member& member, Time now, Duration sample, std::uint32_t rwnd);
  // Recomputes the largest and smallest values, which heard() only widens.
  void recount();

  Duration max_srtt() const { return max_srtt_; }
  Duration max_timeout() const { return max_timeout_; }  // srtt + 4 rttvar, without a lower bound
  std::uint32_t min_rwnd() const { return min_rwnd_; }   // packets

  // RLA 4.3: the one receiver that slows down all others by drop_slow_ratio; null if there is none.
  Member* slowest(std::uint64_t packets_sent);

 private:
  const Settings& settings_;
  IdTable table_;
  std::vector<Member> members_;  // by slot
  std::uint32_t used_ = 0;       // members_ from here on were never used
  Duration max_srtt_;
  Duration max_timeout_;
  std::uint32_t min_rwnd_;
};

}  // namespace tiercast::rla
