// The first line of tiercast-ns3's input: network, program, sessions, traffic.
// SPDX-License-Identifier: GPL-2.0-only
//
// proto/tiercast/v1/simulation.proto describes it; the lab writes it
// (mininet/tiercast_lab/run/ns3/).
#pragma once

#include <string>

#include "tiercast/v1/simulation.pb.h"

namespace tiercast::ns3_runtime {

// Throws ConfigError, which names the key.
v1::Scenario parse_scenario(const std::string& json);

}  // namespace tiercast::ns3_runtime
