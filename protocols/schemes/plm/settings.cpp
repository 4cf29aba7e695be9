#include "protocols/schemes/plm/settings.h"

#include "protocols/core/session_config.h"

namespace tiercast::plm {
namespace {

using enum UsedBy;

constexpr ParameterInfo kParameters[] = {
#define PARAMETER(type, name, ...) parameter<type>("plm." #name, __VA_ARGS__),
#include "protocols/schemes/plm/parameters.inc"
#undef PARAMETER
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, kMaxLayers);
  const Parameters& p = config.parameters;
  Settings s{};
#define PARAMETER(type, name, ...) s.name = p.get<type>("plm." #name);
#include "protocols/schemes/plm/parameters.inc"
#undef PARAMETER
  return s;
}

}  // namespace tiercast::plm
