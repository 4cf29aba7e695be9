// The checks of a SessionConfig that all schemes share.
#pragma once

#include "protocols/core/core.h"

namespace tiercast {

// ConfigError if session, layers or packet_size is out of range; names it, its value and its range.
// `max_layers`: kMaxLayers, or 1 for a scheme of one rate. `header_bytes`: of its data messages.
void check_session(const SessionConfig& config, unsigned max_layers,
                   std::uint32_t header_bytes = 72);

}  // namespace tiercast
