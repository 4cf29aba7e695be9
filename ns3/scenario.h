// The first message of tiercast-ns3's input: network, program, sessions, traffic.
// SPDX-License-Identifier: GPL-2.0-only
//
// proto/tiercast/v1/simulation.proto describes it; the lab writes it
// (mininet/tiercast_lab/run/ns3/).
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>

#include "tiercast/v1/simulation.pb.h"

namespace tiercast::ns3_runtime {

// Throws ConfigError, which names the key.
v1::Scenario read_scenario(google::protobuf::io::ZeroCopyInputStream& input);

}  // namespace tiercast::ns3_runtime
