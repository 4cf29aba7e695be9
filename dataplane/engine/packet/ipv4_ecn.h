// ECN in a frame's IPv4 header (RFC 3168, 5), for a mark that no program writes.
#pragma once

#include <cstddef>
#include <span>

#include "dataplane/engine/packet/ipv4_layout.h"

namespace tiercast::engine {

// Whether congestion may be told in it: ECT(0), ECT(1) or CE. False for what is not Ethernet II
// with IPv4.
bool is_ecn_capable(std::span<const std::byte> frame);

namespace ecn {
constexpr std::size_t kTos = kIp + 1;  // whose low two bits are ECN
constexpr std::byte kBits{3};          // the bits, and CE
}  // namespace ecn

// Whether it was told: CE. Inline, because every frame that leaves is asked twice.
inline bool has_ce(std::span<const std::byte> frame) {
  return frame.size() > ecn::kTos && (frame[ecn::kTos] & ecn::kBits) == ecn::kBits &&
         is_ecn_capable(frame);
}

// Writes CE, and adjusts the header's checksum (RFC 1624), so that a wrong one stays wrong. The
// frame is ECN-capable.
void mark_congestion(std::span<std::byte> frame);

}  // namespace tiercast::engine
