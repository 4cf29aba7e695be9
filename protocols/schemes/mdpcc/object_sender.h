// The sender's half of repair by NACKs: which segment leaves next. Repairs go before new segments.
// After the last segment the sender flushes, until no receiver has asked for anything for long
// enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "protocols/base/units.h"
#include "protocols/schemes/mdpcc/messages.h"
#include "protocols/schemes/mdpcc/segment_set.h"

namespace tiercast::mdpcc {

class ObjectSender {
 public:
  // An empty `object` is an endless stream. `segment_size` > 0 bytes. ConfigError: more segments
  // than `max_segments`.
  ObjectSender(std::span<const std::byte> object, std::uint32_t segment_size,
               unsigned max_segments);

  bool endless() const { return segment_count_ == 0; }
  std::uint32_t segment_count() const { return segment_count_; }
  std::uint32_t segment_size() const { return segment_size_; }
  // All segments before this one have been sent at least once.
  std::uint32_t next_segment() const { return next_new_; }
  std::span<const std::byte> segment(std::uint32_t number) const;

  // The segment that leaves now. Empty if everything known to be wanted has left; never empty for a
  // stream.
  std::optional<std::uint32_t> take(Time now);

  // Takes the segments that a receiver lacks. Returns how many of them are now going to be sent
  // that were not before. This leaves out segments that already wait to be sent, and those repaired
  // within the last one to two epochs, whose repair may still be on its way. Numbers that were
  // never sent are ignored.
  std::uint32_t request(Time now, const wire::MdpccNack& nack);
  // Begins an epoch. An epoch lasts one GRTT.
  void begin_epoch();

  bool flushing() const {
    return !endless() && next_new_ == segment_count_ && requested_.size() == 0;
  }
  // Whether the next segment is a repair.
  bool repairing() const { return requested_.size() > 0; }
  // The time of the last segment sent or NACK received, whichever is later.
  Time quiet_since() const { return quiet_since_; }

 private:
  const std::span<const std::byte> object_;
  const std::uint32_t segment_size_;
  const std::uint32_t segment_count_;
  std::uint32_t next_new_ = 0;
  SegmentSet requested_;  // asked for, and not sent since
  std::uint32_t cursor_ = 0;
  SegmentSet repaired_;         // in this epoch
  SegmentSet repaired_before_;  // in the epoch before
  Time quiet_since_;
};

}  // namespace tiercast::mdpcc
