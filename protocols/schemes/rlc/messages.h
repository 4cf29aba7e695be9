// RLC's only message (PROTOCOLS 11): data, with a bit that marks a layer's synchronization points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/wire/wire.h"

namespace tiercast::wire {

// Starts every data packet of an RLC layer; payload follows.
struct RlcData {
  static constexpr std::size_t kBytes = 16;  // including the common header
  std::uint16_t session = 0;
  std::uint8_t rank = 0;    // 0 .. 7
  bool sync_point = false;  // the layer's first packet after a synchronization point
  std::uint32_t seq = 0;    // per layer; wraps
};

// The message may be longer than the header (payload). docs/wire-format.md gives the order of the
// checks.
Error parse(std::span<const std::byte> message, RlcData& out);

// Returns the bytes written; 0 if `out` is too short or a field is out of range.
std::size_t write(const RlcData& data, std::span<std::byte> out);

}  // namespace tiercast::wire
