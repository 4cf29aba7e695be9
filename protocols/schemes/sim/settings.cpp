#include "protocols/schemes/sim/settings.h"

#include "protocols/core/session_config.h"
#include "protocols/schemes/sim/messages.h"

namespace tiercast::sim {
namespace {

using enum UsedBy;

constexpr ParameterInfo kParameters[] = {
#define PARAMETER(type, name, ...) parameter<type>("sim." #name, __VA_ARGS__),
#include "protocols/schemes/sim/parameters.inc"
#undef PARAMETER
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, kMaxLayers, wire::SimData::kBytes);
  const Parameters& p = config.parameters;
  Settings s{};
#define PARAMETER(type, name, ...) s.name = p.get<type>("sim." #name);
#include "protocols/schemes/sim/parameters.inc"
#undef PARAMETER
  p.require_rising({"sim.min_rate", "sim.initial_rate", "sim.max_rate"});
  return s;
}

}  // namespace tiercast::sim
