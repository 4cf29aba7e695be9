// The sender's half of repair by NACKs: which segment leaves next. Repairs go before new segments;
// after the last one the sender flushes until no receiver has asked for long enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "protocols/base/units.h"
#include "protocols/schemes/mdpcc/segment_set.h"
#include "protocols/wire/mdpcc.h"

namespace tiercast::mdpcc {

class ObjectSender {
 public:
  // `object` empty: a stream without end. `segment_size` > 0 bytes. ConfigError: more segments than
  // `max_segments`.
  ObjectSender(std::span<const std::byte> object, std::uint32_t segment_size,
               unsigned max_segments);

  bool endless() const { return segment_count_ == 0; }
  std::uint32_t segment_count() const { return segment_count_; }
  std::uint32_t segment_size() const { return segment_size_; }
  // All before it have been sent at least once.
  std::uint32_t next_segment() const { return next_new_; }
  std::span<const std::byte> segment(std::uint32_t number) const;

  // The segment that leaves now; nothing if all that is known to be wanted has left. Not of a
  // stream.
  std::optional<std::uint32_t> take(Time now);

  // Segments that a receiver lacks. Returns how many of them will now be sent that would not have
  // been: not those that wait to be sent, or were repaired within the last one to two epochs, since
  // that repair may be on its way. Numbers that were never sent are ignored.
  std::uint32_t request(Time now, const wire::MdpccNack& nack);
  // Begins an epoch; epochs last one GRTT.
  void begin_epoch();

  bool flushing() const { return !endless() && next_new_ == segment_count_ && wanted_.size() == 0; }
  // The next segment is a repair.
  bool repairing() const { return wanted_.size() > 0; }
  // When the last segment left, or the last NACK came.
  Time quiet_since() const { return quiet_since_; }

 private:
  const std::span<const std::byte> object_;
  const std::uint32_t segment_size_;
  const std::uint32_t segment_count_;
  std::uint32_t next_new_ = 0;
  SegmentSet wanted_;  // asked for, not sent since
  std::uint32_t cursor_ = 0;
  SegmentSet repaired_;         // in this epoch
  SegmentSet repaired_before_;  // in the one before
  Time quiet_since_;
};

}  // namespace tiercast::mdpcc
