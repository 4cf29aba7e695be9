// SIM's parameters as the cores use them. Names, ranges, defaults and their sources: settings.cpp.
#pragma once

#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::sim {

struct Settings {
  double delta;              // multiplicative decrease, 0 .. 1
  Rate increase;             // additive increase per adjustment ("Delta")
  bool cumulative;           // rates are adjusted cumulatively, not each layer's own
  Rate initial_rate;         // of a layer that starts
  Rate min_rate;             // of a layer that runs
  Rate max_rate;             // of one layer: the application's cap
  Duration menu_interval;    // T_menu
  double menu_threshold;     // theta, fraction of the maximum received rate
  Duration initial_rtt;      // before the first sample
  double rtt_weight;         // EWMA of RTTmax
  double rate_weight;        // EWMA of the received rate
  double mark_fraction;      // share of marked packets that makes a receiver congested
  unsigned add_after;        // needless cuts before a layer is added ("K")
  double add_backoff;        // factor on add_after for each time that a layer was added in vain
  unsigned drop_after;       // congested notifications before the top layer is dropped ("K")
  double drop_loss;          // share of lost packets at which a new layer is dropped at once
  unsigned drop_after_loss;  // notifications with such a loss before an old layer is dropped
  unsigned settle_epochs;    // rate epochs ignored after a change of subscription
  unsigned silent_rounds;    // rounds without an answer after which a child is forgotten
  unsigned empty_rounds;     // rounds without any answer after which all rates fall
  unsigned max_children;     // children the sender can know at a time

  // Checks the whole of `config`; ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

inline constexpr Duration kMinRtt =
    Duration::microseconds(100);  // bounds of an RTT sample: neither forged
inline constexpr Duration kMaxRtt =
    Duration::milliseconds(2000);  // feedback nor a stall may stop the rounds

}  // namespace tiercast::sim
