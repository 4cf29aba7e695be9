// MDP-CC's parameters as the cores use them: those of parameters.inc, and values derived from them.
#pragma once

#include <span>

#include "protocols/base/units.h"
#include "protocols/common/tcp_equation.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::mdpcc {

// How the rate rises towards the goal, and how it falls towards it.
enum class LinearMode { kPacketPerRtt, kSegment };
enum class DecreaseMode { kAtOnce, kExponential };

struct Settings {
#define PARAMETER(type, name, ...) type name;
#include "protocols/schemes/mdpcc/parameters.inc"
#undef PARAMETER

  // Checks all of `config`. ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);

  // A receiver's path for equation (1), with T_O = `timeout` unless that is below the bound.
  TcpPath path(std::uint32_t packet_size, Duration rtt, Duration timeout) const;
};

std::span<const ParameterInfo> parameter_list();

// PROTOCOLS 6.3.
inline constexpr Duration kMinGrtt = Duration::milliseconds(1);
inline constexpr Duration kMaxGrtt = Duration::milliseconds(10'000);
inline constexpr unsigned kMaxBackoff = 20;  // GRTTs
// Of an RTT sample (PROTOCOLS 6: "min 1 us").
inline constexpr Duration kMinRtt = Duration::microseconds(1);

}  // namespace tiercast::mdpcc
