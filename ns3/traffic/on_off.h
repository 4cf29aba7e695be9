// On-off traffic: draws the lengths of on- and off-periods from a distribution.
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>

#include "protocols/base/rng.h"
#include "tiercast/v1/simulation.pb.h"

namespace tiercast::ns3_runtime {

// Returns 1 to 10^18 of the length's unit, which is nanoseconds or packets.
std::uint64_t draw(const v1::Length& length, Rng& rng);

enum class FlowKind : std::uint16_t { kTcp, kUdp };

// Each flow has its own random numbers, so that adding a flow does not change the periods of the
// others.
Rng flow_rng(std::uint64_t seed, FlowKind kind, std::uint16_t number);

}  // namespace tiercast::ns3_runtime
