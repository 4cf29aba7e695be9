// RLM's parameters as the cores use them. Names, ranges, defaults and their sources: settings.cpp.
#pragma once

#include <array>
#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::rlm {

struct Settings {
  std::array<Rate, kMaxLayers> rate;  // of each layer; zero beyond the cap
  double join_init;                   // T_J at first, and its floor, s
  double join_max;                    // s
  double backoff;                     // alpha
  double relax;                       // beta
  double detect_init;                 // T_D, s
  double detect_var_init;             // s
  double detect_gain;                 // of T_D and its deviation
  double loss_threshold;              // in state M
  unsigned measured_packets;          // that state M decides on
  bool leave_base;                    // the base layer is dropped like any other
  bool ecn;                           // CE counts as a loss
  unsigned max_reflections;           // of announcements, per second

  // Checks the whole of `config`; ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

}  // namespace tiercast::rlm
