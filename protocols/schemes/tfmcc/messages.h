// TFMCC's two messages (RFC 4654, 2.2; PROTOCOLS 8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/wire/wire.h"

namespace tiercast::wire {

// Starts every data packet; payload follows.
struct TfmccData {
  static constexpr std::size_t kBytes = 56;  // with the common header
  static constexpr std::uint32_t kNoRate = 0xffffffff;
  std::uint16_t session = 0;
  bool clr_valid = false;  // there is a CLR
  bool slow_start = false;
  bool echo_valid = false;       // the echo fields count
  std::uint32_t seq = 0;         // wraps
  std::uint32_t tx_time_us = 0;  // sender's clock, wraps after 71 minutes
  std::uint16_t fb_round = 0;    // feedback round; wraps
  std::uint32_t rate = 0;        // X, IP bytes/s
  // X_supp of this round: the lowest rate reported by receivers that know their RTT, and by those
  // that do not; kNoRate: none has.
  std::uint32_t supp_rate = kNoRate;
  std::uint32_t supp_rate_blind = kNoRate;
  std::uint32_t max_rtt_us = 0;    // R_max
  std::uint32_t clr = 0;           // current limiting receiver
  std::uint32_t echo_source = 0;   // whose report is answered
  std::uint32_t echo_time_us = 0;  // its time stamp
  std::uint32_t echo_hold_us = 0;  // from its arrival to this departure
};

struct TfmccFeedback {
  static constexpr std::size_t kBytes = 44;  // with the common header
  enum class Kind : std::uint8_t { kReport = 1, kLeave = 2 };
  std::uint16_t session = 0;
  Kind kind = Kind::kReport;
  bool have_rtt = false;
  bool have_loss = false;
  std::uint32_t source = 0;           // identification number of the receiver
  std::uint16_t fb_round = 0;         // the round last seen
  std::uint32_t rate = 0;             // X_r, IP bytes/s
  std::uint32_t time_us = 0;          // receiver's clock at departure
  std::uint32_t echo_time_us = 0;     // tx_time_us of the latest data packet
  std::uint32_t echo_hold_us = 0;     // from its arrival to this departure
  std::uint32_t loss_event_rate = 0;  // p, times 2^32 - 1
  std::uint32_t rtt_us = 0;           // R that X_r was computed with
};

// Data: message may be longer than the header (payload). Feedback: message ends with the header.
Error parse(std::span<const std::byte> message, TfmccData& out);
Error parse(std::span<const std::byte> message, TfmccFeedback& out);

// Return the bytes written; 0 if `out` is too short or the session is outside its range.
std::size_t write(const TfmccData& data, std::span<std::byte> out);
std::size_t write(const TfmccFeedback& feedback, std::span<std::byte> out);

}  // namespace tiercast::wire
