#include "protocols/schemes/rlm/settings.h"

#include <algorithm>

#include "protocols/core/session_config.h"
#include "protocols/wire/rlm.h"

namespace tiercast::rlm {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"rlm.base_rate", 32e3, 100, 1e12, "bit/s", "of the base layer", "RLM 5: 32 x 2^m kbit/s"},
    {"rlm.step_rate", 64e3, 100, 1e12, "bit/s", "of the first layer above it", "RLM 5"},
    {"rlm.growth", 2, 0.1, 10, "",
     "each further layer's rate, relative to the one below; 1: uniform", "RLM 5"},
    {"rlm.max_rate", 100e6, 100, 1e12, "bit/s", "cumulative; layers end there",
     "the application's cap"},
    {"rlm.join_init", 5, 0.1, 600, "s", "join timer at first, and its floor", "PROTOCOLS 10"},
    {"rlm.join_max", 60, 0.1, 36000, "s", "longest join timer (600 s in the paper)",
     "PROTOCOLS 10"},
    {"rlm.backoff", 2, 1, 100, "", "alpha, of the join timer on failure", "PROTOCOLS 10"},
    {"rlm.relax", 0.75, 0.01, 1, "", "beta, of the join timer in steady state", "PROTOCOLS 10"},
    {"rlm.detect_init", 5, 0.1, 60, "s", "detection time at first", "PROTOCOLS 10"},
    {"rlm.detect_var_init", 2, 0, 60, "s", "and its deviation", "PROTOCOLS 10"},
    {"rlm.detect_gain", 0.25, 0.001, 1, "", "EWMA weight of both", "PROTOCOLS 10"},
    {"rlm.loss_threshold", 0.25, 0, 1, "", "of losses measured, above which a layer is dropped",
     "PROTOCOLS 10"},
    {"rlm.measured_packets", 10, 1, 1e6, "packets", "received before that is decided",
     "PROTOCOLS 10"},
    {"rlm.leave_base", 0, 0, 1, "", "1: the base layer is dropped like any other",
     "project decision"},
    {"rlm.ecn", 0, 0, 1, "", "1: a packet marked CE counts as lost", "RLM knows no marks"},
    {"rlm.max_reflections", 1000, 1, 1e6, "1/s", "announcements repeated to the group",
     "project decision"},
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, kMaxLayers, wire::RlmData::kBytes);
  const Parameters& p = config.parameters;
  Settings s{};
  const double max = p.get("rlm.max_rate");
  double layer = p.get("rlm.base_rate");
  double sum = 0;
  for (unsigned k = 0; k < config.layers; ++k) {
    if (k == 1) layer = p.get("rlm.step_rate");
    if (k > 1) layer *= p.get("rlm.growth");
    const double rate = std::min(layer, max - sum);
    s.rate[k] = Rate::bits_per_second(rate);
    sum += rate;
  }
  s.join_init = p.get("rlm.join_init");
  s.join_max = p.get("rlm.join_max");
  s.backoff = p.get("rlm.backoff");
  s.relax = p.get("rlm.relax");
  s.detect_init = p.get("rlm.detect_init");
  s.detect_var_init = p.get("rlm.detect_var_init");
  s.detect_gain = p.get("rlm.detect_gain");
  s.loss_threshold = p.get("rlm.loss_threshold");
  s.measured_packets = p.count("rlm.measured_packets");
  s.leave_base = p.on("rlm.leave_base");
  s.ecn = p.on("rlm.ecn");
  s.max_reflections = p.count("rlm.max_reflections");
  p.require_rising({"rlm.join_init", "rlm.join_max"});
  return s;
}

}  // namespace tiercast::rlm
