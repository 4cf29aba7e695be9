// RLC's one message (PROTOCOLS 11): data, with a bit that marks a layer's synchronization points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/wire/wire.h"

namespace tiercast::wire {

// Starts every data packet of an RLC layer; payload follows.
struct RlcData {
  static constexpr std::size_t kBytes = 16;  // with the common header
  std::uint16_t session = 0;
  std::uint8_t rank = 0;    // 0 .. 7
  bool sync_point = false;  // the layer's first packet after a synchronization point
  std::uint32_t seq = 0;    // per layer; wraps
};

// A message may be longer than the header (payload). The order of the checks is
// docs/wire-format.md's.
Error parse(std::span<const std::byte> message, RlcData& out);

// Returns the bytes written; 0 if `out` is too short or a field is outside its range.
std::size_t write(const RlcData& data, std::span<std::byte> out);

}  // namespace tiercast::wire
