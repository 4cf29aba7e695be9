#include "protocols/schemes/mlda/settings.h"

#include <algorithm>
#include <string>

#include "protocols/core/session_config.h"

namespace tiercast::mlda {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"mlda.control_interval", 10, 0.5, 600, "s", "T_control, between two sender reports",
     "MLDA III-F"},
    {"mlda.control_jitter", 0.5, 0, 60, "s", "p, added to T_control: uniform from 0 to this",
     "MLDA III-F; as a bound PROTOCOLS 7.2"},
    {"mlda.observation", 1.5, 0.01, 60, "s", "least T_o, observation period of one layer",
     "MLDA III-F"},
    {"mlda.report_spread", 1.5, 0.001, 60, "s", "T_rand, longest wait of a receiver report",
     "MLDA III-F"},
    {"mlda.report_lambda", 10, 0.1, 50, "", "lambda of the truncated exponential wait",
     "MLDA III-C"},
    {"mlda.return_time", 0.5, 0, 60, "s", "T_return, for reports to reach the sender",
     "MLDA III-F"},
    {"mlda.sync_time", 0.5, 0, 60, "s", "T_sync", "MLDA III-F"},
    {"mlda.sigma", 1.5, 1.01, 10, "",
     "receivers observe without a sender report after sigma T_control",
     "rule: MLDA III-E; value: PROTOCOLS 7.2"},
    {"mlda.alpha", 0.9, 0.1, 1, "", "dampens the largest reported rate", "MLDA IV-A.1"},
    {"mlda.min_rate", 20e3, 100, 1e9, "bit/s", "R_min of the subintervals, and of an estimate",
     "rule: MLDA III-C; value: PROTOCOLS 7.2"},
    {"mlda.max_rate", 10e6, 1e3, 30e9, "bit/s", "R_max of the subintervals, and of an estimate",
     "rule: MLDA III-C; value: PROTOCOLS 7.2"},
    {"mlda.rho", 0.1, 0.001, 10, "", "relative width of a subinterval",
     "rule: MLDA (3); value: PROTOCOLS 7.2"},
    {"mlda.min_layer_rate", 20e3, 100, 1e9, "bit/s", "L_min, smallest layer",
     "rule: MLDA IV-A.1; value: PROTOCOLS 7.2"},
    {"mlda.initial_rate", 100e3, 100, 1e9, "bit/s", "of the base layer when the session starts",
     "MLDA V-A"},
    {"mlda.initial_increase", 70e3, 1, 1e9, "bit/s", "A_add(0) of LDA+",
     "rule: PROTOCOLS 7.5; value: calibrated"},
    {"mlda.initial_rtt", 0.5, 1e-4, 5, "s", "while nobody in the session has measured one",
     "PROTOCOLS 7.6"},
    {"mlda.rtt_weight", 0.5, 0.001, 1, "", "EWMA weight of a round-trip time measured end to end",
     "PROTOCOLS 7.6"},
    {"mlda.delay_weight", 0.05, 0.001, 1, "", "EWMA weight of a packet's one-way delay",
     "PROTOCOLS 7.6"},
    {"mlda.rtt_interval", 60, 1, 3600, "s", "after which a receiver measures end to end again",
     "project decision"},
    {"mlda.pair_interval", 1, 0.01, 60, "s", "between two packet pairs", "PROTOCOLS 7.5"},
    {"mlda.pair_samples", 100, 1, 1000, "samples", "of packet pairs kept", "PROTOCOLS 7.5"},
    {"mlda.pair_cluster", 0.1, 0.001, 1, "", "relative difference of samples that agree",
     "PROTOCOLS 7.5"},
    {"mlda.silent_cycles", 3, 1, 1000, "cycles", "without any report, then rates are halved",
     "PROTOCOLS 7.4"},
    {"mlda.max_reflections", 1000, 1, 1e6, "reports", "reflected to the group in a cycle",
     "project decision"},
    {"mlda.ecn", 1, 0, 1, "", "1: a packet marked CE counts as lost", "RFC 3168"},
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Duration observation_budget(const Parameters& p) {
  return Duration::seconds(p.get("mlda.control_interval") - p.get("mlda.control_jitter") -
                           p.get("mlda.report_spread") - p.get("mlda.return_time") -
                           p.get("mlda.sync_time"));
}

Settings Settings::from(const SessionConfig& config) {
  check_session(config, kMaxLayers);
  const Parameters& p = config.parameters;
  Settings s{};
  s.control_interval = p.time("mlda.control_interval");
  s.control_jitter = p.time("mlda.control_jitter");
  s.observation = p.time("mlda.observation");
  s.report_spread = p.time("mlda.report_spread");
  s.report_lambda = p.get("mlda.report_lambda");
  s.sync_time = p.time("mlda.sync_time");
  s.sigma = p.get("mlda.sigma");
  s.alpha = p.get("mlda.alpha");
  s.min_rate = p.rate("mlda.min_rate");
  s.max_rate = p.rate("mlda.max_rate");
  s.rho = p.get("mlda.rho");
  s.min_layer_rate = p.rate("mlda.min_layer_rate");
  s.initial_rate = p.rate("mlda.initial_rate");
  s.initial_increase = p.rate("mlda.initial_increase");
  s.initial_rtt = p.time("mlda.initial_rtt");
  s.rtt_weight = p.get("mlda.rtt_weight");
  s.delay_weight = p.get("mlda.delay_weight");
  s.rtt_interval = p.time("mlda.rtt_interval");
  s.pair_interval = p.time("mlda.pair_interval");
  s.pair_samples = p.count("mlda.pair_samples");
  s.pair_cluster = p.get("mlda.pair_cluster");
  s.silent_cycles = p.count("mlda.silent_cycles");
  s.max_reflections = p.count("mlda.max_reflections");
  s.ecn = p.on("mlda.ecn");
  p.require_rising({"mlda.min_rate", "mlda.initial_rate", "mlda.max_rate"});
  const Duration budget = mlda::observation_budget(p);
  if (budget < s.observation) {
    throw ConfigError("mlda.observation " + format_duration(s.observation) +
                      " does not fit into mlda.control_interval " +
                      format_duration(s.control_interval) +
                      " less control_jitter, report_spread, return_time and sync_time");
  }
  // MLDA III-F: every layer needs its observation period before the next sender report.
  s.max_layers = std::min(config.layers, static_cast<unsigned>(budget / s.observation));
  // 1.5 s is "at least": what the layers leave over makes their losses less noisy.
  s.observation = Duration::nanoseconds(budget.ns() / s.max_layers);
  return s;
}

}  // namespace tiercast::mlda
