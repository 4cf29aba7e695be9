// SIM's parameters as the cores use them: those of parameters.inc, and values derived from them.
#pragma once

#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::sim {

struct Settings {
#define PARAMETER(type, name, ...) type name;
#include "protocols/schemes/sim/parameters.inc"
#undef PARAMETER

  // Checks all of `config`. ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

inline constexpr Duration kMinRtt =
    Duration::microseconds(100);  // bounds of an RTT sample, so that neither
inline constexpr Duration kMaxRtt =
    Duration::milliseconds(2000);  // forged feedback nor a stall stops the rounds

}  // namespace tiercast::sim
