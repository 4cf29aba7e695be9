// MDP-CC's messages (PROTOCOLS 6.2): data, probe, report, and the two forms of a repair request.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/wire/wire.h"

namespace tiercast::wire {

// Starts every data packet; `payload_length` bytes of the object and padding follow.
struct MdpccData {
  static constexpr std::size_t kBytes = 28;  // including the common header
  std::uint16_t session = 0;
  std::uint16_t object_id = 0;      // of the sender's current transfer
  std::uint16_t segment_size = 0;   // bytes of every segment except the last
  std::uint32_t seq = 0;            // counts all data messages of the session; wraps
  std::uint32_t segment = 0;        // 0 .. segment_count - 1; starts at byte segment * segment_size
  std::uint32_t segment_count = 0;  // of the object; 0: an endless stream
  std::uint16_t payload_length = 0;  // bytes of the segment; 0: none
};

// Flags: what a sender says about a representative, and a receiver about itself.
inline constexpr std::uint8_t kMdpccClr = 1;     // the current limiting receiver
inline constexpr std::uint8_t kMdpccRtt = 2;     // the round-trip time was measured; otherwise it
                                                 // is the group's
inline constexpr std::uint8_t kMdpccStart = 4;   // slow start: no loss event yet
inline constexpr std::uint8_t kMdpccEvent = 8;   // a loss event has just started
inline constexpr std::uint8_t kMdpccLeave = 16;  // the receiver is leaving

struct MdpccRepresentative {
  static constexpr std::size_t kBytes = 16;
  std::uint32_t receiver = 0;  // identification number
  std::uint32_t rtt_us = 0;    // the sender's estimate
  std::uint32_t rate = 0;      // the sender's goal rate for this receiver, IP bytes/s
  std::uint8_t flags = 0;      // of the flags above
};

// Sender to group, once per GRTT: asks for round-trip times and gives the state of the transfer.
struct MdpccProbe {
  static constexpr std::uint8_t kKind = 1;
  static constexpr std::size_t kFixedBytes = 40;  // including the common header
  static constexpr std::size_t kMaxRecords = 5;
  static constexpr std::size_t kMaxBytes = kFixedBytes + kMaxRecords * MdpccRepresentative::kBytes;
  std::uint16_t session = 0;
  std::uint8_t record_count = 0;  // 0 .. 5
  std::uint16_t probe_seq = 0;    // wraps
  std::uint32_t tx_time_us = 0;   // sender's clock, wraps after 71 minutes
  std::uint32_t grtt_us = 0;      // group round-trip time
  std::uint32_t tx_rate = 0;      // IP bytes/s
  std::uint16_t group_size = 1;   // expected receivers, for the back-off's density
  std::uint8_t backoff = 0;       // K: longest back-off in GRTTs
  std::uint16_t object_id = 0;
  std::uint16_t segment_size = 0;
  std::uint32_t segment_count = 0;  // 0: an endless stream
  std::uint32_t next_segment = 0;   // all segments before it have been sent at least once
  std::array<MdpccRepresentative, kMaxRecords> representatives{};

  std::size_t bytes() const { return kFixedBytes + record_count * MdpccRepresentative::kBytes; }
};

// Receiver to sender. As a control message: the sender's reflection of it to the group.
struct MdpccReport {
  static constexpr std::uint8_t kFeedbackKind = 1;
  static constexpr std::uint8_t kControlKind = 2;
  static constexpr std::size_t kBytes = 36;  // including the common header
  bool reflected = false;
  std::uint16_t session = 0;
  std::uint8_t flags = 0;         // of the flags above
  std::uint16_t probe_seq = 0;    // the probe that this answers
  std::uint32_t source = 0;       // identification number of the receiver
  std::uint32_t response_us = 0;  // the probe's tx_time_us plus the time that the receiver held it
  std::uint32_t loss = 0;         // loss event rate; 2^32 - 1 stands for 1
  std::uint32_t rate = 0;         // desired, IP bytes/s
  std::uint32_t received_rate = 0;  // IP bytes/s
  std::uint32_t rtt_us = 0;         // the value that `rate` was computed with
};

struct MdpccSegments {
  static constexpr std::size_t kBytes = 8;
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  // One beyond the last of them, or `limit` if that is less.
  std::uint32_t end(std::uint32_t limit) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{first} + count, limit));
  }
};

// Receiver to sender: the segments that it lacks. As a control message: the sender tells the group
// what it has been asked for.
struct MdpccNack {
  static constexpr std::uint8_t kFeedbackKind = 2;
  static constexpr std::uint8_t kControlKind = 3;
  static constexpr std::size_t kFixedBytes = 16;  // including the common header
  static constexpr std::size_t kMaxRecords = 64;
  static constexpr std::size_t kMaxBytes = kFixedBytes + kMaxRecords * MdpccSegments::kBytes;
  bool reflected = false;
  std::uint16_t session = 0;
  std::uint8_t record_count = 0;  // 0 .. 64
  std::uint16_t object_id = 0;
  std::uint32_t source = 0;  // identification number of the receiver
  std::array<MdpccSegments, kMaxRecords> segments{};

  std::size_t bytes() const { return kFixedBytes + record_count * MdpccSegments::kBytes; }
};

// Data may be longer than the header (payload). The others end with their last field or record. The
// ranges of a NACK are in ascending order, do not overlap, and are not empty. Whether other values
// fit together is not checked. An unknown kind gives Error::kType, too. docs/wire-format.md gives
// the order of the checks.
Error parse(std::span<const std::byte> message, MdpccData& out);
Error parse(std::span<const std::byte> message, MdpccProbe& out);
Error parse(std::span<const std::byte> message, MdpccReport& out);  // both forms
Error parse(std::span<const std::byte> message, MdpccNack& out);    // both forms

// All return the bytes written; 0 if `out` is too short or a field is out of range.
std::size_t write(const MdpccData& data, std::span<std::byte> out);
std::size_t write(const MdpccProbe& probe, std::span<std::byte> out);
std::size_t write(const MdpccReport& report, std::span<std::byte> out);
std::size_t write(const MdpccNack& nack, std::span<std::byte> out);

}  // namespace tiercast::wire
