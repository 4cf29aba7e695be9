#include "protocols/schemes/rlm/settings.h"

#include <algorithm>

#include "protocols/core/session_config.h"
#include "protocols/schemes/rlm/messages.h"

namespace tiercast::rlm {
namespace {

using enum UsedBy;

constexpr ParameterInfo kParameters[] = {
#define PARAMETER(type, name, ...) parameter<type>("rlm." #name, __VA_ARGS__),
#include "protocols/schemes/rlm/parameters.inc"
#undef PARAMETER
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, kMaxLayers, wire::RlmData::kBytes);
  const Parameters& p = config.parameters;
  Settings s{};
#define PARAMETER(type, name, ...) s.name = p.get<type>("rlm." #name);
#include "protocols/schemes/rlm/parameters.inc"
#undef PARAMETER
  Rate layer = s.base_rate;
  Rate sum = Rate::zero();
  for (unsigned k = 0; k < config.layers; ++k) {
    if (k == 1) layer = s.step_rate;
    if (k > 1) layer = layer * s.growth;
    s.rate[k] = std::min(layer, s.max_rate - sum);
    sum += s.rate[k];
  }
  p.require_rising({"rlm.join_init", "rlm.join_max"});
  return s;
}

}  // namespace tiercast::rlm
