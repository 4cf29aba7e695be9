// RLA's parameters as the cores use them: those of parameters.inc, and values derived from them.
#pragma once

#include <cstdint>
#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::rla {

struct Settings {
#define PARAMETER(type, name, ...) type name;
#include "protocols/schemes/rla/parameters.inc"
#undef PARAMETER

  // Checks all of `config`. ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

// Bounds, so that no receiver's claims can hold up the timers for longer.
inline constexpr Duration kMaxRtt = Duration::milliseconds(2'000);
inline constexpr Duration kMaxTimeout = Duration::milliseconds(30'000);

}  // namespace tiercast::rla
