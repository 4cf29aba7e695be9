// TFMCC's parameters as the cores use them: parameters.inc, and what is made of them.
#pragma once

#include <span>

#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::tfmcc {

struct Settings {
#define PARAMETER(type, name, ...) type name;
#include "protocols/schemes/tfmcc/parameters.inc"
#undef PARAMETER

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
