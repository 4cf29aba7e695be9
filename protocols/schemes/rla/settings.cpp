#include "protocols/schemes/rla/settings.h"

#include <string>

#include "protocols/core/session_config.h"
#include "protocols/schemes/rla/messages.h"

namespace tiercast::rla {
namespace {

using enum UsedBy;

constexpr ParameterInfo kParameters[] = {
#define PARAMETER(type, name, ...) parameter<type>("rla." #name, __VA_ARGS__),
#include "protocols/schemes/rla/parameters.inc"
#undef PARAMETER
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, 1);
  // Packet numbers are compared as serial numbers.
  const std::size_t payload = config.packet_size - kIpUdpHeaderBytes - wire::RlaData::kBytes;
  if (config.object.size() / payload > 0x7fffffff) {
    throw ConfigError("the object has " + std::to_string(config.object.size() / payload) +
                      " packets; valid: at most 2147483647");
  }
  const Parameters& p = config.parameters;
  Settings s{};
#define PARAMETER(type, name, ...) s.name = p.get<type>("rla." #name);
#include "protocols/schemes/rla/parameters.inc"
#undef PARAMETER
  p.require_rising({"rla.initial_window", "rla.max_window"});
  return s;
}

}  // namespace tiercast::rla
