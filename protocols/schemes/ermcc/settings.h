// ERMCC's parameters as the cores use them. Names, ranges, defaults and their sources: settings.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::ermcc {

struct Settings {
  double alpha;             // EWMA weight of TRAC, its deviation and T, 0 .. 1
  double beta;              // rate after a cut, as a share of the TRAC, 0.5 .. 1
  Duration window;          // time over which TRAC is measured ("Delta t")
  Duration min_history;     // of reception before a TRAC is taken
  Duration initial_rtt;     // before the first sample
  double rtt_weight;        // EWMA of the CR's RTT
  double full_deviations;   // bottleneck taken as full at mu + so many sigma
  double silent_deviations; // T_max is E[T] + so many T_sigma
  Duration first_t_max;     // T_max before T was ever measured, at least
  Rate max_rate;            // the application's cap
  double ask_fraction;      // of the receivers, asked at a time while there is no CR, above 0 .. 1
  bool mu_at_source;        // the source averages the CR's TRAC itself
  bool ecn;                 // a mark counts as a loss
  std::uint32_t send_times; // packets whose departure is remembered, a power of two

  // Checks the whole of `config`; ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

// Bounds of an RTT sample: neither forged feedback nor a stall may stop the clock.
inline constexpr Duration kMinRtt = Duration::microseconds(100);
inline constexpr Duration kMaxRtt = Duration::milliseconds(10'000);

}  // namespace tiercast::ermcc
