// The limits of a SessionConfig, and the checks that all schemes share.
#pragma once

#include <cstdint>
#include <string_view>

#include "protocols/core/core.h"

namespace tiercast {

// IP bytes of a data packet. Ethernet pads a shorter one, and a layer's rate would be wrong; a
// longer one is above the MTU of NICs with jumbo frames. A scheme's minimum is larger where its
// headers are.
inline constexpr std::uint32_t kMinPacketSize = 46;
inline constexpr std::uint32_t kMaxPacketSize = 9000;

// ConfigError names the member, its value and its range.
void check_range(std::string_view member, std::int64_t value, std::int64_t min, std::int64_t max);

// ConfigError if session, layers or packet_size is out of range. `max_layers`: kMaxLayers, or 1 for
// a scheme of one rate. `header_bytes`: of its data messages; by default those of the longest.
void check_session(const SessionConfig& config, unsigned max_layers,
                   std::uint32_t header_bytes = 72);

}  // namespace tiercast
