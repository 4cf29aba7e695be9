// ECN in a frame's IPv4 header (RFC 3168, 5), for a mark that no program writes.
#pragma once

#include <cstddef>
#include <span>

namespace tiercast::engine {

// Whether congestion may be told in it: ECT(0), ECT(1) or CE. False for what is not Ethernet II
// with IPv4.
bool is_ecn_capable(std::span<const std::byte> frame);

// Whether it was told: CE.
bool has_ce(std::span<const std::byte> frame);

// Writes CE, and adjusts the header's checksum (RFC 1624), so that a wrong one stays wrong. The
// frame is ECN-capable.
void mark_congestion(std::span<std::byte> frame);

}  // namespace tiercast::engine
