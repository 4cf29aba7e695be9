// MLDA's parameters as the cores use them: parameters.inc, and what is made of them.
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

  // `observation` is T_o as observed: T_o_all shared among max_layers.
  unsigned max_layers;  // K: the session's layers, at most those that can be observed

  // Checks the whole of `config`; ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

// T_o_all, what T_control leaves for all observation periods (MLDA III-F). May be negative.
Duration observation_budget(const Parameters& parameters);

}  // namespace tiercast::mlda
