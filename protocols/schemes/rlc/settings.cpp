#include "protocols/schemes/rlc/settings.h"

#include "protocols/core/session_config.h"

namespace tiercast::rlc {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"rlc.base_rate", 31.25e3, 100, 1e9, "bit/s", "of layer 0; n + 1 layers together have 2^n of it",
     "project decision"},
    {"rlc.sync_interval", 0.25, 0.01, 60, "s", "between layer 0's synchronization points; layer i: 2^i",
     "PROTOCOLS 11"},
    {"rlc.burst", 0.1, 0.001, 30, "s", "at twice the rate before a point, and pause after it",
     "project decision"},
    {"rlc.deaf", 10, 0, 600, "s", "in which losses are ignored after a layer was left",
     "PROTOCOLS 11"},
    {"rlc.ecn", 0, 0, 1, "", "1: a packet marked CE counts as lost", "RLC knows no marks"},
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, kMaxLayers);
  const Parameters& p = config.parameters;
  Settings s{};
  double layer = p.get("rlc.base_rate");
  for (unsigned k = 0; k < config.layers; ++k) {
    if (k > 1) layer *= 2;
    s.rate[k] = Rate::bits_per_second(layer);
  }
  s.sync_interval = p.time("rlc.sync_interval");
  s.burst = p.time("rlc.burst");
  s.deaf = p.time("rlc.deaf");
  s.ecn = p.on("rlc.ecn");
  if (s.burst * 2 > s.sync_interval) {
    throw ConfigError("rlc.burst " + format_duration(s.burst) +
                      " is more than half of rlc.sync_interval " +
                      format_duration(s.sync_interval));
  }
  return s;
}

}  // namespace tiercast::rlc
