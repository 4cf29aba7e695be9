// PGMCC's parameters as the cores use them. Names, ranges, defaults and their sources: settings.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::pgmcc {

struct Settings {
  double acker_bias;         // C
  double loss_constant;      // c of the loss filter
  double ssthresh;           // packets: W up to which it grows as in slow start
  std::uint32_t max_window;  // packets
  Duration initial_timeout;
  Duration min_timeout;
  unsigned acker_timeouts;  // in a row, then there is no acker
  Duration nak_backoff;     // receiver: largest random delay of a NAK; zero: none, no suppression
  bool ecn;                 // receiver: a mark counts as a loss

  // Checks the whole of `config`; ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);
};

std::span<const ParameterInfo> parameter_list();

}  // namespace tiercast::pgmcc
