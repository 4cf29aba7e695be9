// The limits of a SessionConfig, and the checks that all schemes share.
#pragma once

#include <cstdint>
#include <string_view>

#include "protocols/core/core.h"

namespace tiercast {

// IP bytes of a data packet. Ethernet pads shorter ones, which would falsify a layer's rate; longer
// ones exceed the MTU of NICs with jumbo frames. Some schemes have a larger minimum because of
// their headers.
inline constexpr std::uint32_t kMinPacketSize = 46;
inline constexpr std::uint32_t kMaxPacketSize = 9000;

// ConfigError names the member, its value and its range.
void check_range(std::string_view member, std::int64_t value, std::int64_t min, std::int64_t max);

// ConfigError if session, layers or packet_size is out of range. `max_layers`: kMaxLayers, or 1 for
// a single-rate scheme. `header_bytes`: of the scheme's data messages; the default is that of the
// longest headers.
void check_session(const SessionConfig& config, unsigned max_layers,
                   std::uint32_t header_bytes = 72);

}  // namespace tiercast
