#include "protocols/schemes/tfmcc/settings.h"

#include "protocols/common/loss_history.h"
#include "protocols/core/session_config.h"

namespace tiercast::tfmcc {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"tfmcc.initial_rtt", 0.5, 1e-3, 10, "s", "R_max before the first report", "PROTOCOLS 8"},
    {"tfmcc.rtt_decay", 0.9, 0.1, 1, "", "share of R_max kept per round without a larger RTT",
     "RFC 4654, 3.2"},
    {"tfmcc.round_rtts", 6, 1, 100, "R_max", "length of a feedback round (T)", "RFC 4654, 3.4"},
    {"tfmcc.round_packets", 3, 0, 100, "packets",
     "that may be lost in a row: a round lasts at least one more (q)", "RFC 4654, 3.4"},
    {"tfmcc.group_size", 10000, 2, 1e9, "receivers", "more than are expected (N)",
     "RFC 4654, 4.5"},
    {"tfmcc.suppression", 0.1, 0, 1, "", "a rate this close to the lowest one is not reported (g)",
     "RFC 4654, 4.5"},
    {"tfmcc.rtt_weight", 0.5, 0.001, 1, "", "EWMA weight of a measured RTT", "RFC 4654, 4.3"},
    {"tfmcc.rtt_weight_clr", 0.05, 0.001, 1, "", "the same, at the CLR", "RFC 4654, 4.3"},
    {"tfmcc.delay_weight", 0.05, 0.001, 1, "", "EWMA weight of a one-way adjustment of the RTT",
     "PROTOCOLS 7.6"},
    {"tfmcc.slow_start_factor", 2, 1, 10, "", "slow start's rate, as a multiple of the received one",
     "RFC 4654, 3.6 (d)"},
    {"tfmcc.halve_after", 4, 1, 100, "RTTs", "without a report of the CLR, then the rate is halved",
     "RFC 4654, 3.5"},
    {"tfmcc.clr_timeout", 10, 1, 1000, "RTTs", "without a report of the CLR, then it is gone",
     "RFC 4654, 3.5"},
    {"tfmcc.max_rate", 100e6, 1e3, 100e9, "bit/s", "highest rate (the application's cap)",
     "PROTOCOLS 13"},
    {"tfmcc.ecn", 0, 0, 1, "", "1: congestion marks are loss events", "RFC 5348, 5.1"},
    {"tfmcc.reorder", 0, 0, LossHistory::kMaxLater - 1, "packets",
     "may overtake one before it counts as lost", "PROTOCOLS 0.3"},
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, 1);
  const Parameters& p = config.parameters;
  Settings s{};
  s.initial_rtt = p.time("tfmcc.initial_rtt");
  s.rtt_decay = p.get("tfmcc.rtt_decay");
  s.round_rtts = p.get("tfmcc.round_rtts");
  s.round_packets = p.get("tfmcc.round_packets");
  s.group_size = p.get("tfmcc.group_size");
  s.suppression = p.get("tfmcc.suppression");
  s.rtt_weight = p.get("tfmcc.rtt_weight");
  s.rtt_weight_clr = p.get("tfmcc.rtt_weight_clr");
  s.delay_weight = p.get("tfmcc.delay_weight");
  s.slow_start_factor = p.get("tfmcc.slow_start_factor");
  s.halve_after = p.get("tfmcc.halve_after");
  s.clr_timeout = p.get("tfmcc.clr_timeout");
  s.max_rate = p.rate("tfmcc.max_rate");
  s.ecn = p.on("tfmcc.ecn");
  s.reorder = p.count("tfmcc.reorder");
  return s;
}

}  // namespace tiercast::tfmcc
