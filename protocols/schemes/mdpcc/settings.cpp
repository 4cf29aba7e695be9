#include "protocols/schemes/mdpcc/settings.h"

#include <algorithm>

#include "protocols/common/loss_history.h"
#include "protocols/core/session_config.h"
#include "protocols/wire/mdpcc.h"

namespace tiercast::mdpcc {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"mdpcc.representatives", 5, 1, wire::MdpccProbe::kMaxRecords, "receivers",
     "probed once per GRTT", "MDP-CC, parameter estimation"},
    {"mdpcc.backoff", 4, 1, kMaxBackoff, "GRTTs", "longest back-off of a report or NACK (K)",
     "PROTOCOLS 6.4"},
    {"mdpcc.group_size", 100, 1, 65535, "receivers", "expected; shapes the back-offs",
     "rule: PROTOCOLS 0.3; value: project decision"},
    {"mdpcc.initial_grtt", 0.5, 1e-3, 10, "s", "GRTT before the first sample", "PROTOCOLS 6.3"},
    {"mdpcc.initial_rate", 0, 0, 1e9, "bit/s", "first rate; 0: a packet per GRTT",
     "PROTOCOLS 6.5"},
    {"mdpcc.max_rate", 100e6, 1e3, 100e9, "bit/s", "highest rate (the application's cap)",
     "PROTOCOLS 6.5"},
    {"mdpcc.linear_mode", 0, 0, 1, "",
     "increase: 0 a packet per RTT each RTT, 1 segment_size bytes/s each response",
     "PROTOCOLS 6.5"},
    {"mdpcc.decrease_mode", 0, 0, 1, "",
     "decrease: 0 to the goal at once, 1 by mdpcc.decrease each RTT", "PROTOCOLS 6.5"},
    {"mdpcc.decrease", 0.5, 0.1, 0.99, "", "share of the rate kept per RTT in decrease_mode 1",
     "PROTOCOLS 6.5"},
    {"mdpcc.rtt_weight", 0.1, 0.001, 1, "", "EWMA weight of a representative's RTT",
     "PROTOCOLS 6.5"},
    {"mdpcc.min_timeout", 0, 0, 10, "s", "lower bound of the TCP equation's time-out",
     "PROTOCOLS 1.4"},
    {"mdpcc.ecn", 1, 0, 1, "", "1: congestion marks are loss events",
     "MDP-CC, ECN simulation results"},
    {"mdpcc.reorder", 0, 0, LossHistory::kMaxLater - 1, "packets",
     "may overtake one before it counts as lost", "PROTOCOLS 0.3"},
    {"mdpcc.max_segments", 1 << 20, 1, 1 << 28, "segments", "of an object", "memory bound"},
    {"mdpcc.flush_rounds", 20, 1, 1000, "GRTTs",
     "without a NACK after the last segment, then the transfer is finished",
     "NORM's robustness factor"},
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, 1);
  const Parameters& p = config.parameters;
  Settings s{};
  s.representatives = p.count("mdpcc.representatives");
  s.backoff = p.count("mdpcc.backoff");
  s.group_size = p.count("mdpcc.group_size");
  s.initial_grtt = p.time("mdpcc.initial_grtt");
  s.initial_rate = p.rate("mdpcc.initial_rate");
  s.max_rate = p.rate("mdpcc.max_rate");
  s.linear_mode = static_cast<LinearMode>(p.count("mdpcc.linear_mode"));
  s.decrease_mode = static_cast<DecreaseMode>(p.count("mdpcc.decrease_mode"));
  s.decrease = p.get("mdpcc.decrease");
  s.rtt_weight = p.get("mdpcc.rtt_weight");
  s.min_timeout = p.time("mdpcc.min_timeout");
  s.ecn = p.on("mdpcc.ecn");
  s.reorder = p.count("mdpcc.reorder");
  s.max_segments = p.count("mdpcc.max_segments");
  s.flush_rounds = p.count("mdpcc.flush_rounds");
  p.require_rising({"mdpcc.initial_rate", "mdpcc.max_rate"});
  return s;
}

TcpPath Settings::path(std::uint32_t packet_size, Duration rtt, Duration timeout) const {
  TcpPath path;
  path.packet_size = packet_size;
  path.rtt = std::max(rtt, kMinRtt);
  path.timeout = std::max({timeout, min_timeout, kMinRtt});
  return path;
}


}  // namespace tiercast::mdpcc
