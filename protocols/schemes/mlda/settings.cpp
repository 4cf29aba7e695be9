#include "protocols/schemes/mlda/settings.h"

#include <algorithm>
#include <string>

#include "protocols/core/session_config.h"

namespace tiercast::mlda {
namespace {

using enum UsedBy;

constexpr ParameterInfo kParameters[] = {
#define PARAMETER(type, name, ...) parameter<type>("mlda." #name, __VA_ARGS__),
#include "protocols/schemes/mlda/parameters.inc"
#undef PARAMETER
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Duration observation_budget(const Parameters& p) {
  return Duration::seconds(p.get("mlda.control_interval") - p.get("mlda.control_jitter") -
                           p.get("mlda.report_spread") - p.get("mlda.return_time") -
                           p.get("mlda.sync_time"));
}

Settings Settings::from(const SessionConfig& config) {
  check_session(config, kMaxLayers);
  const Parameters& p = config.parameters;
  Settings s{};
#define PARAMETER(type, name, ...) s.name = p.get<type>("mlda." #name);
#include "protocols/schemes/mlda/parameters.inc"
#undef PARAMETER
  p.require_rising({"mlda.min_rate", "mlda.initial_rate", "mlda.max_rate"});
  const Duration budget = mlda::observation_budget(p);
  if (budget < s.observation) {
    throw ConfigError("mlda.observation " + format_duration(s.observation) +
                      " does not fit into mlda.control_interval " +
                      format_duration(s.control_interval) +
                      " less control_jitter, report_spread, return_time and sync_time");
  }
  // MLDA III-F: each layer needs an observation period before the next sender report.
  s.max_layers = std::min(config.layers, static_cast<unsigned>(budget / s.observation));
  // 1.5 s is a minimum. Time left over by few layers makes their loss measurements less noisy.
  s.observation = Duration::nanoseconds(budget.ns() / s.max_layers);
  return s;
}

}  // namespace tiercast::mlda
