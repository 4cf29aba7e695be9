#include "protocols/schemes/ermcc/settings.h"

#include <bit>

#include "protocols/core/session_config.h"

namespace tiercast::ermcc {
namespace {

using enum UsedBy;

constexpr ParameterInfo kParameters[] = {
#define PARAMETER(type, name, ...) parameter<type>("ermcc." #name, __VA_ARGS__),
#include "protocols/schemes/ermcc/parameters.inc"
#undef PARAMETER
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, 1);
  const Parameters& p = config.parameters;
  Settings s{};
#define PARAMETER(type, name, ...) s.name = p.get<type>("ermcc." #name);
#include "protocols/schemes/ermcc/parameters.inc"
#undef PARAMETER
  s.send_times = std::bit_ceil(s.send_times);
  return s;
}

}  // namespace tiercast::ermcc
