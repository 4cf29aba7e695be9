// PLM's parameters as the cores use them: those of parameters.inc, and values derived from them.
#pragma once

#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::plm {

struct Settings {
#define PARAMETER(type, name, ...) type name;
#include "protocols/schemes/plm/parameters.inc"
#undef PARAMETER

  // The total rate of layers 0 .. level-1.
  Rate cumulative(int level) const { return layer_rate * level; }

  // Checks all of `config`. ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

}  // namespace tiercast::plm
