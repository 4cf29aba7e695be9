#include "protocols/core/session_config.h"

#include <algorithm>
#include <string>

#include "protocols/wire/wire.h"

namespace tiercast {
namespace {

constexpr std::uint32_t kMinPacketSize = 46;  // an Ethernet frame of 64 bytes

void check(std::string_view member, std::uint64_t value, std::uint64_t min, std::uint64_t max) {
  if (value >= min && value <= max) return;
  throw ConfigError(std::string(member) + " = " + std::to_string(value) +
                    " is out of range: valid " + std::to_string(min) + " to " +
                    std::to_string(max));
}

}  // namespace

void check_session(const SessionConfig& config, unsigned max_layers, std::uint32_t header_bytes) {
  check("session", config.session, 0, wire::kMaxSession);
  check("layers", config.layers, 1, max_layers);
  check("packet_size", config.packet_size,
        std::max(kMinPacketSize, kIpUdpHeaderBytes + header_bytes), 65535);
}

}  // namespace tiercast
