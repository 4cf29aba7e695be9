// TFMCC's parameters as the cores use them. Names, ranges, defaults and their sources: settings.cpp.
#pragma once

#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::tfmcc {

struct Settings {
  Duration initial_rtt;      // R_max before the first report
  double rtt_decay;          // R_max keeps this share per round, 0 .. 1
  double round_rtts;         // T, in R_max
  double round_packets;      // q: T lasts at least q + 1 packets
  double group_size;         // N of the timers
  double suppression;        // g: a report within this share of X_supp is not needed, 0 .. 1
  double rtt_weight;         // EWMA of a measured RTT, not the CLR's
  double rtt_weight_clr;     // the same, the CLR's
  double delay_weight;       // EWMA of a one-way adjustment
  double slow_start_factor;  // d
  double halve_after;        // RTTs without a report of the CLR
  double clr_timeout;        // RTTs without a report of the CLR
  Rate max_rate;             // the application's cap
  bool ecn;                  // marks are loss events
  unsigned reorder;          // packets that may overtake one before it counts as lost

  // Checks the whole of `config`; ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

// Bounds of an RTT sample.
inline constexpr Duration kMinRtt = Duration::microseconds(100);
inline constexpr Duration kMaxRtt = Duration::milliseconds(10'000);
// A sender that hears nobody does not fall below a packet in this time (RFC 5348's t_mbi).
inline constexpr double kMaxInterval = 64;  // s

}  // namespace tiercast::tfmcc
