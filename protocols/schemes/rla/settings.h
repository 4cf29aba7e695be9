// RLA's parameters as the cores use them. Names, ranges, defaults and their sources: settings.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::rla {

struct Settings {
  double eta;                      // a troubled receiver's interval is below eta times the smallest
  double rtt_exponent;             // k of f(x) = x^k; 0: the restricted topology's RLA
  double forced_cut;               // in awnd * srtt_i since the last cut
  double awnd_weight;              // EWMA, per packet
  double interval_weight;          // EWMA of congestion intervals, per signal
  double initial_window;           // packets
  std::uint32_t max_window;        // packets between min_last_ack and the newest
  std::uint32_t max_burst;         // packets released per acknowledgement
  std::uint32_t rexmit_threshold;  // more requesters than this: by multicast
  Duration overhead;               // largest random delay before a transmission; zero: none
  Duration min_timeout;
  Duration initial_timeout;  // before the first sample of RTT
  unsigned drop_timeouts;    // in a row without progress, then the receiver is dropped; 0: never
  double drop_slow_ratio;    // congestion intervals, next worst to worst; 0: never
  Duration start_delay;
  std::uint32_t max_receivers;
  std::uint32_t buffer;       // receiver: packets
  Duration rexmit_now_after;  // receiver: zero: never
  Duration hello_interval;    // receiver

  // Checks the whole of `config`; ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

// Nothing that a receiver claims may hold the timers up for longer.
inline constexpr Duration kMaxRtt = Duration::milliseconds(2'000);
inline constexpr Duration kMaxTimeout = Duration::milliseconds(30'000);

}  // namespace tiercast::rla
