// RLC's parameters as the cores use them: those of parameters.inc, and values derived from them.
#pragma once

#include <array>
#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::rlc {

struct Settings {
#define PARAMETER(type, name, ...) type name;
#include "protocols/schemes/rlc/parameters.inc"
#undef PARAMETER

  std::array<Rate, kMaxLayers> rate;  // of each layer

  // Checks all of `config`. ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

}  // namespace tiercast::rlc
