#include "protocols/schemes/plm/settings.h"

#include "protocols/core/session_config.h"

namespace tiercast::plm {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"plm.layer_rate", 20e3, 100, 1e9, "bit/s", "of each layer", "MLDA V-A"},
    {"plm.check", 1, 0.01, 60, "s", "C: between changes of level upwards", "PROTOCOLS 12"},
    {"plm.check_samples", 3, 1, 1000, "pairs", "that a change upwards needs", "PROTOCOLS 12"},
    {"plm.loss_threshold", 0.1, 0, 1, "", "above which a layer is dropped", "PROTOCOLS 12"},
    {"plm.loss_packets", 10, 1, 1e6, "packets", "that decide it", "PROTOCOLS 12"},
    {"plm.loss_window", 5, 0.1, 600, "s", "longest time over which losses count", "PROTOCOLS 12"},
    {"plm.loss_holdoff", 0.5, 0, 60, "s", "after a drop, before losses count again",
     "PROTOCOLS 12"},
    {"plm.rejoin", 30, 0.1, 3600, "s", "after the last layer was left", "PROTOCOLS 12"},
    {"plm.ecn", 0, 0, 1, "", "1: a packet marked CE counts as lost", "PLM knows no marks"},
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, kMaxLayers);
  const Parameters& p = config.parameters;
  Settings s{};
  s.layer_rate = p.rate("plm.layer_rate");
  s.check = p.time("plm.check");
  s.check_samples = p.count("plm.check_samples");
  s.loss_threshold = p.get("plm.loss_threshold");
  s.loss_packets = p.count("plm.loss_packets");
  s.loss_window = p.time("plm.loss_window");
  s.loss_holdoff = p.time("plm.loss_holdoff");
  s.rejoin = p.time("plm.rejoin");
  s.ecn = p.on("plm.ecn");
  return s;
}

}  // namespace tiercast::plm
