// ERMCC's two messages (ERMCC 3.1.2, 3.2.5; PROTOCOLS 4.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/wire/wire.h"

namespace tiercast::wire {

// Starts every data packet; payload follows.
struct ErmccData {
  static constexpr std::size_t kBytes = 36;  // including the common header
  static constexpr std::uint32_t kAskAll = 0xffffffff;
  std::uint16_t session = 0;
  bool cr_valid = false;        // the CR is active; otherwise receivers are asked for feedback
  std::uint32_t seq = 0;        // wraps
  std::uint32_t cr = 0;         // identification number of the latest CR
  std::uint32_t mu_hat = 0;     // its average TRAC, IP bytes/s
  std::uint32_t sigma_hat = 0;  // the deviation of its TRAC, IP bytes/s
  // Without an active CR: which receivers are asked. Every receiver has a place on a circle of 2^32
  // points; asked are those from ask_from on, over a distance of ask_share.
  std::uint32_t ask_from = 0;
  std::uint32_t ask_share = kAskAll;
};

struct ErmccFeedback {
  static constexpr std::size_t kBytes = 32;  // including the common header
  enum class Kind : std::uint8_t { kCongestion = 1, kLeave = 2 };
  std::uint16_t session = 0;
  Kind kind = Kind::kCongestion;
  std::uint32_t source = 0;  // identification number of the receiver
  std::uint32_t seq = 0;     // the packet whose arrival showed the loss, or else the latest packet
  std::uint32_t omega = 0;   // TRAC, IP bytes/s
  std::uint32_t mu = 0;      // average TRAC, IP bytes/s
  std::uint32_t sigma = 0;   // deviation of the TRAC, IP bytes/s
};

// Data may be longer than the header (payload). Feedback ends with the header.
Error parse(std::span<const std::byte> message, ErmccData& out);
Error parse(std::span<const std::byte> message, ErmccFeedback& out);

// Both return the bytes written; 0 if `out` is too short or the session is out of range.
std::size_t write(const ErmccData& data, std::span<std::byte> out);
std::size_t write(const ErmccFeedback& feedback, std::span<std::byte> out);

}  // namespace tiercast::wire
