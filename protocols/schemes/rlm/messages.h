// RLM's messages (PROTOCOLS 10): data, and a receiver's announcement that it adds a layer, which
// the sender repeats to all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/wire/wire.h"

namespace tiercast::wire {

// Starts every data packet of an RLM layer; payload follows.
struct RlmData {
  static constexpr std::size_t kBytes = 16;  // including the common header
  std::uint16_t session = 0;
  std::uint8_t rank = 0;  // 0 .. 7
  std::uint32_t seq = 0;  // per layer; wraps
};

// Feedback from a receiver. The sender repeats it as a control message on the base layer.
struct RlmAnnouncement {
  static constexpr std::size_t kBytes = 16;
  Type type = Type::kFeedback;  // or kControl
  std::uint16_t session = 0;
  std::uint8_t rank = 0;     // of the layer that is being added
  std::uint32_t source = 0;  // identification number of the receiver
};

// Data may be longer than the header (payload). An announcement must end with its last field.
// docs/wire-format.md gives the order of the checks.
Error parse(std::span<const std::byte> message, RlmData& out);
// `type`: kFeedback or kControl.
Error parse(std::span<const std::byte> message, Type type, RlmAnnouncement& out);

// Both return the bytes written; 0 if `out` is too short or a field is out of range.
std::size_t write(const RlmData& data, std::span<std::byte> out);
std::size_t write(const RlmAnnouncement& announcement, std::span<std::byte> out);

}  // namespace tiercast::wire
