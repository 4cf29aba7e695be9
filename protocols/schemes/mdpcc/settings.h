// MDP-CC's parameters as the cores use them. Names, ranges, defaults and their sources: settings.cpp.
#pragma once

#include <span>

#include "protocols/base/units.h"
#include "protocols/common/tcp_equation.h"
#include "protocols/core/core.h"
#include "protocols/core/parameters.h"

namespace tiercast::mdpcc {

struct Settings {
  enum class LinearMode { kPacketPerRtt, kSegment };
  enum class DecreaseMode { kAtOnce, kExponential };

  unsigned representatives;    // 1 .. 5
  unsigned backoff;            // K, GRTTs
  unsigned group_size;         // expected, for the density of the back-offs
  Duration initial_grtt;       // before the first sample
  Rate initial_rate;           // zero: a packet per GRTT
  Rate max_rate;               // the application's cap
  LinearMode linear_mode;      // how the rate rises towards the goal
  DecreaseMode decrease_mode;  // how it falls
  double decrease;             // share kept per RTT, if exponential
  double rtt_weight;           // EWMA of a representative's RTT
  Duration min_timeout;        // lower bound of T_O in the TCP equation
  bool ecn;                    // marks are loss events
  unsigned reorder;            // later packets that must arrive before one counts as lost
  unsigned max_segments;       // of an object: memory bound of the receiver
  unsigned flush_rounds;       // GRTTs of silence after which a transfer is finished

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
