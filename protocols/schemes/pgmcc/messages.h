// PGMCC's messages: data, four kinds of feedback, and the sender's confirmation of a NAK
// (draft-ietf-rmt-bb-pgmcc-03; PROTOCOLS 9).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/wire/wire.h"

namespace tiercast::wire {

// Starts every data packet; payload follows.
struct PgmccData {
  static constexpr std::size_t kBytes = 24;  // including the common header
  std::uint16_t session = 0;
  bool has_acker = false;        // otherwise receivers are asked for dummy NAKs
  std::uint32_t seq = 0;         // wraps
  std::uint32_t tx_time_us = 0;  // sender's clock, wraps after 71 minutes
  std::uint32_t acker = 0;       // identification number
};

struct PgmccFeedback {
  static constexpr std::size_t kBytes = 40;  // including the common header
  enum class Kind : std::uint8_t {
    kAck = 1,       // from the acker, for each data packet
    kNak = 2,       // packet `missing` was lost
    kDummyNak = 3,  // nothing was lost, but the sender has no acker
    kLeaving = 4,   // the acker is leaving
  };
  std::uint16_t session = 0;
  Kind kind = Kind::kAck;
  std::uint32_t source = 0;
  std::uint32_t rx_max = 0;        // highest packet received
  std::uint32_t bitmap = 0;        // bit i: packet rx_max - i was received
  std::uint32_t echo_time_us = 0;  // tx_time_us of the latest packet received
  std::uint32_t hold_us = 0;       // time since that packet was received
  std::uint32_t loss = 0;          // output of the loss filter, as a fraction times 2^32
  std::uint32_t missing = 0;       // kNak only; otherwise 0
};

// To the group: the NAK of `source` has arrived, so others need not send theirs.
struct PgmccConfirmation {
  static constexpr std::uint8_t kKind = 1;
  static constexpr std::size_t kBytes = 20;  // including the common header
  std::uint16_t session = 0;
  std::uint32_t source = 0;
  std::uint32_t missing = 0;
};

// Data may be longer than the header (payload). The others end with the header.
Error parse(std::span<const std::byte> message, PgmccData& out);
Error parse(std::span<const std::byte> message, PgmccFeedback& out);
Error parse(std::span<const std::byte> message, PgmccConfirmation& out);

// All return the bytes written; 0 if `out` is too short or the session is out of range.
std::size_t write(const PgmccData& data, std::span<std::byte> out);
std::size_t write(const PgmccFeedback& feedback, std::span<std::byte> out);
std::size_t write(const PgmccConfirmation& confirmation, std::span<std::byte> out);

}  // namespace tiercast::wire
