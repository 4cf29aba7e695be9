// PLM's parameters as the cores use them. Names, ranges, defaults and their sources: settings.cpp.
#pragma once

#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::plm {

struct Settings {
  Rate layer_rate;         // of each layer
  Duration check;          // C: between changes upwards
  unsigned check_samples;  // pairs that it needs
  double loss_threshold;   // above which a layer is dropped
  unsigned loss_packets;   // that decide it
  Duration loss_window;    // longest
  Duration loss_holdoff;   // after a drop
  Duration rejoin;         // after the last layer was left
  bool ecn;                // CE counts as a loss

  // Of the layers 0 .. level-1 together.
  Rate cumulative(int level) const { return layer_rate * level; }

  // Checks the whole of `config`; ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

}  // namespace tiercast::plm
