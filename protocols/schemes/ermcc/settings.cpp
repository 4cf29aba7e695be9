#include "protocols/schemes/ermcc/settings.h"

#include <bit>

#include "protocols/core/session_config.h"

namespace tiercast::ermcc {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"ermcc.alpha", 0.05, 0.001, 1, "", "EWMA weight of TRAC, its deviation and the response time",
     "rule: ERMCC (2), (3); value: calibrated"},
    {"ermcc.beta", 0.77, 0.5, 0.999, "", "a cut sets the rate to this share of the CR's TRAC",
     "rule: ERMCC 3.2.3 (0.75 in a kernel, 0.65 for a bursty pacer); value: calibrated"},
    {"ermcc.window", 1, 0.01, 60, "s", "time over which TRAC is measured (Delta t)", "ERMCC 3.1.1"},
    {"ermcc.min_history", 0.1, 0, 60, "s", "of reception before a loss is a TRAC",
     "PROTOCOLS 4.2"},
    {"ermcc.initial_rtt", 0.1, 1e-4, 10, "s", "RTT before the first sample", "ERMCC 5"},
    {"ermcc.rtt_weight", 0.125, 0.001, 1, "", "EWMA weight of the CR's RTT", "PROTOCOLS 4.3"},
    {"ermcc.full_deviations", 4, 0, 100, "sigma",
     "above the CR's average TRAC the bottleneck is taken as full", "ERMCC 3.2.2"},
    {"ermcc.silent_deviations", 8, 0, 100, "T_sigma",
     "above E[T] a CR that is silent is inactive (T_max)", "ERMCC 3.2.2"},
    {"ermcc.first_t_max", 2, 0.01, 600, "s",
     "T_max before the first sample of T, and at least 20 RTTs", "PROTOCOLS 4.3"},
    {"ermcc.max_rate", 100e6, 1e3, 100e9, "bit/s", "highest rate (the application's cap)",
     "PROTOCOLS 13"},
    {"ermcc.ask_fraction", 1, 1e-6, 1, "", "of the receivers asked at a time while there is no CR",
     "rule: ERMCC 3.1.3; value: as in the paper's simulations"},
    {"ermcc.mu_at_source", 0, 0, 1, "", "1: the source averages the CR's TRACs itself",
     "ERMCC Appendix A; PROTOCOLS 4.4"},
    {"ermcc.ecn", 0, 0, 1, "", "1: a congestion mark counts as a loss", "PROTOCOLS 4.2"},
    {"ermcc.send_times", 32768, 4096, 1 << 24, "packets",
     "whose departure the source remembers, for RTTs; at least a round trip's", "PROTOCOLS 4.3"},
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, 1);
  const Parameters& p = config.parameters;
  Settings s{};
  s.alpha = p.get("ermcc.alpha");
  s.beta = p.get("ermcc.beta");
  s.window = p.time("ermcc.window");
  s.min_history = p.time("ermcc.min_history");
  s.initial_rtt = p.time("ermcc.initial_rtt");
  s.rtt_weight = p.get("ermcc.rtt_weight");
  s.full_deviations = p.get("ermcc.full_deviations");
  s.silent_deviations = p.get("ermcc.silent_deviations");
  s.first_t_max = p.time("ermcc.first_t_max");
  s.max_rate = p.rate("ermcc.max_rate");
  s.ask_fraction = p.get("ermcc.ask_fraction");
  s.mu_at_source = p.on("ermcc.mu_at_source");
  s.ecn = p.on("ermcc.ecn");
  s.send_times = std::bit_ceil(p.count("ermcc.send_times"));
  return s;
}

}  // namespace tiercast::ermcc
