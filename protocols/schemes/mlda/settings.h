// MLDA's parameters as the cores use them. Names, ranges, defaults and their sources: settings.cpp.
#pragma once

#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::mlda {

struct Settings {
  Duration control_interval;  // T_control
  Duration control_jitter;    // bound of p
  Duration observation;       // T_o, of one layer: T_o_all shared among max_layers
  Duration report_spread;     // T_rand
  double report_lambda;       // lambda
  Duration sync_time;         // T_sync
  double sigma;               // time-out without a sender report, in T_control
  double alpha;               // dampening of r_max
  unsigned max_layers;        // K: the session's layers, at most those that can be observed
  Rate min_rate;              // R_min
  Rate max_rate;              // R_max
  double rho;                 // step of the subintervals
  Rate min_layer_rate;        // L_min
  Rate initial_rate;          // of the base layer
  Rate initial_increase;      // A_add(0)
  Duration initial_rtt;       // while nobody has measured one
  double rtt_weight;          // EWMA of end-to-end samples
  double delay_weight;        // EWMA of one-way changes
  Duration rtt_interval;      // an older end-to-end sample is taken anew
  Duration pair_interval;     // between two packet pairs
  unsigned pair_samples;
  double pair_cluster;
  unsigned silent_cycles;    // without a report before rates fall
  unsigned max_reflections;  // of receiver reports in a cycle
  bool ecn;                  // CE counts as a loss

  // Checks the whole of `config`; ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

// T_o_all, what T_control leaves for all observation periods (MLDA III-F). May be negative.
Duration observation_budget(const Parameters& parameters);

}  // namespace tiercast::mlda
