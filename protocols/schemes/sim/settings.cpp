#include "protocols/schemes/sim/settings.h"


#include "protocols/core/session_config.h"
#include "protocols/wire/sim.h"

namespace tiercast::sim {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"sim.delta", 0.965, 0.1, 0.999, "", "a congested layer's rate is multiplied by this",
     "form: SIM 3.1; value: calibrated"},
    {"sim.increase", 35e3, 1, 1e9, "bit/s", "added to an uncongested layer's rate per adjustment",
     "form: SIM 3.1; value: calibrated"},
    {"sim.cumulative", 1, 0, 1, "",
     "what is adjusted: 1, the cumulative rate up to a layer; 0, the layer's own rate",
     "rule: SIM 3.1; reading: project decision"},
    {"sim.initial_rate", 300e3, 1e3, 1e9, "bit/s", "rate of a layer that starts", "calibrated"},
    {"sim.min_rate", 100e3, 1e3, 1e9, "bit/s", "lowest rate of a running layer", "calibrated"},
    {"sim.max_rate", 100e6, 1e3, 100e9, "bit/s",
     "highest rate of one layer (the application's cap)", "PROTOCOLS 3.6"},
    {"sim.menu_interval", 5, 0.1, 600, "s", "menu adaptation interval", "PROTOCOLS 3.2"},
    {"sim.menu_threshold", 0.1, 0, 1, "",
     "spread of received rates, relative to the maximum, that activates the menu",
     "rule: SIM 3.3; value: PROTOCOLS 3.2"},
    {"sim.initial_rtt", 0.1, 1e-4, 2, "s", "maximum RTT before the first sample", "PROTOCOLS 3.2"},
    {"sim.rtt_weight", 0.25, 0.001, 1, "", "EWMA weight of the maximum RTT", "PROTOCOLS 3.2"},
    {"sim.rate_weight", 0.25, 0.001, 1, "", "EWMA weight of the received rate", "PROTOCOLS 3.3"},
    {"sim.mark_fraction", 0.5, 0.001, 1, "",
     "share of marked top-group packets that means congested", "PROTOCOLS 3.3"},
    {"sim.add_after", 4, 1, 1000, "cuts",
     "of its rate while it is not congested, before a layer is added",
     "rule: SIM 3.2; value: calibrated"},
    {"sim.add_backoff", 1, 1, 16, "",
     "multiplies add_after for a layer after each time it was added in vain; 1: the fixed number",
     "rule: SIM 3.2 (1); above 1: project decision"},
    {"sim.drop_after", 24, 1, 1000, "notifications",
     "congested in a row before the top layer is dropped", "rule: SIM 3.2; value: calibrated"},
    {"sim.drop_loss", 0.1, 0.001, 1, "",
     "share of a new layer's packets lost in a rate epoch, at which it is dropped at once",
     "project decision; value: calibrated"},
    {"sim.drop_after_loss", 6, 1, 1000, "notifications",
     "in a row with such a loss before a layer that has served longer is dropped",
     "project decision; value: calibrated"},
    {"sim.settle_epochs", 1, 0, 1000, "epochs", "ignored after a change of subscription",
     "PROTOCOLS 3.3"},
    {"sim.silent_rounds", 8, 1, 1000, "rounds", "without an answer, then a child is forgotten",
     "PROTOCOLS 3.5"},
    {"sim.empty_rounds", 3, 1, 1000, "rounds",
     "without any answer, then all rates fall by delta per round", "PROTOCOLS 3.2"},
    {"sim.max_children", 4096, 1, 1e6, "children", "known to the sender at a time", "memory bound"},
};

}  // namespace

std::span<const ParameterInfo> parameter_list() { return kParameters; }

Settings Settings::from(const SessionConfig& config) {
  check_session(config, kMaxLayers, wire::SimData::kBytes);
  const Parameters& p = config.parameters;
  Settings s{};
  s.delta = p.get("sim.delta");
  s.increase = p.rate("sim.increase");
  s.cumulative = p.count("sim.cumulative") != 0;
  s.initial_rate = p.rate("sim.initial_rate");
  s.min_rate = p.rate("sim.min_rate");
  s.max_rate = p.rate("sim.max_rate");
  s.menu_interval = p.time("sim.menu_interval");
  s.menu_threshold = p.get("sim.menu_threshold");
  s.initial_rtt = p.time("sim.initial_rtt");
  s.rtt_weight = p.get("sim.rtt_weight");
  s.rate_weight = p.get("sim.rate_weight");
  s.mark_fraction = p.get("sim.mark_fraction");
  s.add_after = p.count("sim.add_after");
  s.add_backoff = p.get("sim.add_backoff");
  s.drop_after = p.count("sim.drop_after");
  s.drop_after_loss = p.count("sim.drop_after_loss");
  s.drop_loss = p.get("sim.drop_loss");
  s.settle_epochs = p.count("sim.settle_epochs");
  s.silent_rounds = p.count("sim.silent_rounds");
  s.empty_rounds = p.count("sim.empty_rounds");
  s.max_children = p.count("sim.max_children");
  p.require_rising({"sim.min_rate", "sim.initial_rate", "sim.max_rate"});
  return s;
}

}  // namespace tiercast::sim
