// TFMCC's two messages (RFC 4654, 2.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/wire/wire.h"

namespace tiercast::wire {

// Starts every data packet; payload follows (RFC 4654, 2.2.1).
struct TfmccData {
  static constexpr std::size_t kBytes = 40;  // with the common header
  static constexpr std::uint32_t kNoRate = 0xffffffff;
  std::uint16_t session = 0;
  bool echo_valid = false;            // the two echo fields and is_clr count
  bool is_clr = false;                // echo_source is the current limiting receiver
  std::uint32_t seq = 0;              // i; wraps
  std::uint32_t tx_time_us = 0;       // ts_i: sender's clock, wraps after 71 minutes
  std::uint16_t fb_round = 0;         // fb_nr; wraps
  std::uint32_t supp_rate = kNoRate;  // X_supp, IP bytes/s; kNoRate: the highest
  std::uint32_t max_rtt_us = 0;       // R_max
  std::uint32_t echo_source = 0;      // r: whose report is answered
  std::uint32_t echo_time_us = 0;     // tr_r': its time stamp, later by the time it was held
};

// RFC 4654, 2.2.2.
struct TfmccFeedback {
  static constexpr std::size_t kBytes = 32;  // with the common header
  std::uint16_t session = 0;
  bool have_rtt = false;
  bool have_loss = false;
  bool leave = false;              // receiver_leave
  std::uint32_t source = 0;        // r: identification number of the receiver
  std::uint16_t fb_round = 0;      // fb_nr: the round last seen
  std::uint32_t rate = 0;          // X_r, IP bytes/s
  std::uint32_t time_us = 0;       // tr_r: receiver's clock at departure
  std::uint32_t echo_time_us = 0;  // ts_i' of the latest data packet, later by its hold here
};

// Data: message may be longer than the header (payload). Feedback: message ends with the header.
Error parse(std::span<const std::byte> message, TfmccData& out);
Error parse(std::span<const std::byte> message, TfmccFeedback& out);

// Return the bytes written; 0 if `out` is too short or the session is outside its range.
std::size_t write(const TfmccData& data, std::span<std::byte> out);
std::size_t write(const TfmccFeedback& feedback, std::span<std::byte> out);

}  // namespace tiercast::wire
