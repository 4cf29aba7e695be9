#include "protocols/schemes/pgmcc/settings.h"

#include "protocols/core/session_config.h"

namespace tiercast::pgmcc {
namespace {

using enum UsedBy;

constexpr ParameterInfo kParameters[] = {
#define PARAMETER(type, name, ...) parameter<type>("pgmcc." #name, __VA_ARGS__),
#include "protocols/schemes/pgmcc/parameters.inc"
#undef PARAMETER
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, 1);
  const Parameters& p = config.parameters;
  Settings s{};
#define PARAMETER(type, name, ...) s.name = p.get<type>("pgmcc." #name);
#include "protocols/schemes/pgmcc/parameters.inc"
#undef PARAMETER
  return s;
}

}  // namespace tiercast::pgmcc
