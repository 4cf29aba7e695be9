// MLDA's parameters as the cores use them: those of parameters.inc, and values derived from them.
#pragma once

#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::mlda {

struct Settings {
#define PARAMETER(type, name, ...) type name;
#include "protocols/schemes/mlda/parameters.inc"
#undef PARAMETER

  // `observation` is the T_o in use: T_o_all divided by max_layers.
  unsigned max_layers;  // K: the session's layers, or fewer if not all of them can be observed

  // Checks all of `config`. ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

// T_o_all, the time that T_control leaves for all observation periods (MLDA III-F). May be
// negative.
Duration observation_budget(const Parameters& parameters);

}  // namespace tiercast::mlda
