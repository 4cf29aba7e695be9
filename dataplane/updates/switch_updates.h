// Carries out what the lab and its controller say about a switch in tiercast.v1 (simulation.proto).
#pragma once

#include <memory>
#include <string>

#include "dataplane/engine/api/switch.h"
#include "tiercast/v1/simulation.pb.h"

namespace tiercast::updates {

// Throws ConfigError if there is no entity, or no operation.
engine::Status apply(engine::Switch& at, const v1::SwitchUpdate& update);

engine::PortConfig port_config(const v1::SimulatedPort& port);

// Throws ConfigError if the file cannot be read, and engine::LoadError.
std::shared_ptr<const engine::Program> load_program(const std::string& path);

}  // namespace tiercast::updates
