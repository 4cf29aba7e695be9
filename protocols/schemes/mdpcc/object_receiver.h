// The receiver's half of repair by NACKs: which segments have arrived, and when to ask for the
// others.
//
// A hole starts a random back-off of up to K GRTTs. Segments that others ask for in this time, as
// reflected by the sender, need not be asked for again. At the end of the back-off, a NACK names
// the remaining holes of those that existed when it began. Then the receiver asks for nothing for K
// + 2 GRTTs, in which the repairs arrive.
#pragma once

#include <cstdint>
#include <span>

#include "protocols/base/rng.h"
#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/schemes/mdpcc/messages.h"
#include "protocols/schemes/mdpcc/segment_set.h"

namespace tiercast::mdpcc {

class ObjectReceiver {
 public:
  struct Timing {
    Duration grtt;
    unsigned backoff;     // K, GRTTs
    unsigned group_size;  // expected
  };

  ObjectReceiver(unsigned max_segments, std::uint64_t seed);

  // Takes a valid data message and its payload. False if it contradicts itself or the transfer, or
  // is too large.
  bool data(Time now, const wire::MdpccData& data, std::span<const std::byte> payload,
            const Timing& timing, Sink& sink);
  // Learns how far the sender is. If the GRTT has fallen, pending waits become shorter.
  void progress(Time now, const wire::MdpccProbe& probe, const Timing& timing);
  // Takes another receiver's NACK, reflected by the sender.
  void heard(const wire::MdpccNack& nack);

  // kNack: the records of `nack` name what to ask for. kSuppressed: all of it has arrived, or
  // others have asked for it.
  enum class Asking { kNothing, kNack, kSuppressed };
  // To be called when a back-off or a time of silence may have ended.
  Asking timer(Time now, const Timing& timing, wire::MdpccNack& nack);
  Time next_timer() const { return deadline_; }

  std::uint64_t delivered() const { return delivered_; }  // bytes
  bool complete() const { return segment_count_ > 0 && received_.size() == segment_count_; }
  std::uint32_t missing() const { return known_end_ - received_.size(); }

 private:
  enum class Phase { kIdle, kBackoff, kHoldoff };

  // False if it is another transfer than ours, or its numbers are impossible.
  bool belongs(std::uint16_t object_id, std::uint16_t segment_size, std::uint32_t segment_count);
  static Duration longest(Phase phase, const Timing& timing);
  void ask_later(Time now, const Timing& timing);

  const std::uint32_t max_segments_;
  Rng rng_;
  std::uint16_t object_id_ = 0;
  std::uint16_t segment_size_ = 0;
  std::uint32_t segment_count_ = 0;  // 0: no transfer seen yet
  // The transfer of a restarted sender, which is adopted after kOthersInARow messages in a row of
  // it.
  std::uint16_t other_id_ = 0;
  unsigned others_in_a_row_ = 0;

  SegmentSet received_;
  SegmentSet asked_;             // by others since the back-off began
  std::uint32_t known_end_ = 0;  // the sender has sent all segments before this one
  // known_end_ when the back-off began. Receivers that lost the same packet have the same value, so
  // that one NACK speaks for all. Younger holes wait for the next round.
  std::uint32_t ask_end_ = 0;
  std::uint32_t first_missing_ = 0;
  std::uint64_t delivered_ = 0;
  Phase phase_ = Phase::kIdle;
  Time deadline_ = Time::never();
};

}  // namespace tiercast::mdpcc
