#include "protocols/schemes/tfmcc/settings.h"

#include "protocols/common/loss_history.h"
#include "protocols/core/session_config.h"

namespace tiercast::tfmcc {
namespace {

using enum UsedBy;

constexpr ParameterInfo kParameters[] = {
#define PARAMETER(type, name, ...) parameter<type>("tfmcc." #name, __VA_ARGS__),
#include "protocols/schemes/tfmcc/parameters.inc"
#undef PARAMETER
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, 1);
  const Parameters& p = config.parameters;
  Settings s{};
#define PARAMETER(type, name, ...) s.name = p.get<type>("tfmcc." #name);
#include "protocols/schemes/tfmcc/parameters.inc"
#undef PARAMETER
  return s;
}

}  // namespace tiercast::tfmcc
