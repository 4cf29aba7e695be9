// MDP-CC's parameters as the cores use them: parameters.inc, and what is made of them.
#pragma once

#include <span>

#include "protocols/base/units.h"
#include "protocols/common/tcp_equation.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::mdpcc {

// How the rate rises towards the goal, and how it falls.
enum class LinearMode { kPacketPerRtt, kSegment };
enum class DecreaseMode { kAtOnce, kExponential };

struct Settings {
#define PARAMETER(type, name, ...) type name;
#include "protocols/schemes/mdpcc/parameters.inc"
#undef PARAMETER

  // Checks the whole of `config`; ConfigError names the member, its value and its range.
  static Settings from(const SessionConfig& config);

  // The equation's path of a receiver (1), with T_O = `timeout` where that is above the bound.
  TcpPath path(std::uint32_t packet_size, Duration rtt, Duration timeout) const;
};

std::span<const ParameterInfo> parameter_list();

// PROTOCOLS 6.3.
inline constexpr Duration kMinGrtt = Duration::milliseconds(1);
inline constexpr Duration kMaxGrtt = Duration::milliseconds(10'000);
inline constexpr unsigned kMaxBackoff = 20;  // GRTTs
// Of a sample: "min 1 us".
inline constexpr Duration kMinRtt = Duration::microseconds(1);

}  // namespace tiercast::mdpcc
