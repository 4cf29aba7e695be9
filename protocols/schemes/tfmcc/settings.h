// TFMCC's parameters as the cores use them: parameters.inc, and what is made of them.
#pragma once

#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::tfmcc {

struct Settings {
#define PARAMETER(type, name, ...) type name;
#include "protocols/schemes/tfmcc/parameters.inc"
#undef PARAMETER

  // Checks the whole of `config`; ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

// The least RTT (RFC 4654, 3.2, 4.3.2 and 4.3.3), and the largest that its R_max can say (2.2.1).
inline constexpr Duration kMinRtt = Duration::milliseconds(1);
inline constexpr Duration kMaxRtt = Duration::milliseconds(64'000);

}  // namespace tiercast::tfmcc
