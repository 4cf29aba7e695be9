// ERMCC's parameters as the cores use them: those of parameters.inc, and values derived from them.
#pragma once

#include <cstdint>
#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::ermcc {

struct Settings {
#define PARAMETER(type, name, ...) type name;
#include "protocols/schemes/ermcc/parameters.inc"
#undef PARAMETER

  // Checks all of `config`. ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

// Bounds of an RTT sample, so that neither forged feedback nor a stall stops the clock.
inline constexpr Duration kMinRtt = Duration::microseconds(100);
inline constexpr Duration kMaxRtt = Duration::milliseconds(10'000);

}  // namespace tiercast::ermcc
