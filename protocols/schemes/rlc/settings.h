// RLC's parameters as the cores use them. Names, ranges, defaults and their sources: settings.cpp.
#pragma once

#include <array>
#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::rlc {

struct Settings {
  std::array<Rate, kMaxLayers> rate;  // of each layer
  Duration sync_interval;             // between layer 0's synchronization points
  Duration burst;                     // before a synchronization point; as long a pause follows it
  Duration deaf;                      // after a layer was left
  bool ecn;                           // CE counts as a loss

  // Checks the whole of `config`; ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

}  // namespace tiercast::rlc
