#include "protocols/schemes/rlc/settings.h"

#include "protocols/core/session_config.h"

namespace tiercast::rlc {
namespace {

using enum UsedBy;

constexpr ParameterInfo kParameters[] = {
#define PARAMETER(type, name, ...) parameter<type>("rlc." #name, __VA_ARGS__),
#include "protocols/schemes/rlc/parameters.inc"
#undef PARAMETER
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, kMaxLayers);
  const Parameters& p = config.parameters;
  Settings s{};
#define PARAMETER(type, name, ...) s.name = p.get<type>("rlc." #name);
#include "protocols/schemes/rlc/parameters.inc"
#undef PARAMETER
  for (unsigned k = 0; k < config.layers; ++k) {
    s.rate[k] = k < 2 ? s.base_rate : s.rate[k - 1] * 2;
  }
  if (s.burst * 2 > s.sync_interval) {
    throw ConfigError("rlc.burst " + format_duration(s.burst) +
                      " is more than half of rlc.sync_interval " +
                      format_duration(s.sync_interval));
  }
  return s;
}

}  // namespace tiercast::rlc
