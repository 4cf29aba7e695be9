#include "protocols/core/session_config.h"

#include <algorithm>
#include <string>

#include "protocols/wire/wire.h"

namespace tiercast {

void check_range(std::string_view member, std::int64_t value, std::int64_t min, std::int64_t max) {
  if (value >= min && value <= max) return;
  throw ConfigError(std::string(member) + " = " + std::to_string(value) +
                    " is out of range: valid " + std::to_string(min) + " to " +
                    std::to_string(max));
}

void check_session(const SessionConfig& config, unsigned max_layers, std::uint32_t header_bytes) {
  check_range("session", config.session, 0, wire::kMaxSession);
  check_range("layers", config.layers, 1, max_layers);
  check_range("packet_size", config.packet_size,
              std::max(kMinPacketSize, kIpUdpHeaderBytes + header_bytes), kMaxPacketSize);
}

}  // namespace tiercast
