// PLM's only message (PROTOCOLS 12): data, sent in pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/wire/wire.h"

namespace tiercast::wire {

// Starts every data packet of a PLM layer; payload follows.
struct PlmData {
  static constexpr std::size_t kBytes = 16;  // including the common header
  std::uint16_t session = 0;
  std::uint8_t rank = 0;  // 0 .. 7
  std::uint8_t pair = 1;  // 1: first of a pair, 2: second
  std::uint32_t seq = 0;  // per layer; wraps
};

// The message may be longer than the header (payload). docs/wire-format.md gives the order of the
// checks.
Error parse(std::span<const std::byte> message, PlmData& out);

// Returns the bytes written; 0 if `out` is too short or a field is out of range.
std::size_t write(const PlmData& data, std::span<std::byte> out);

}  // namespace tiercast::wire
