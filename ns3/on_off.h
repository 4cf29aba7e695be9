// Traffic that comes and goes: the lengths of on- and off-periods, drawn from a distribution.
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>

#include "protocols/base/rng.h"
#include "tiercast/v1/simulation.pb.h"

namespace tiercast::ns3_runtime {

// 1 to 10^18 of the length's unit: nanoseconds or packets.
std::uint64_t draw(const v1::Length& length, Rng& rng);

// Random numbers of one flow's own, so that adding a flow leaves the others' periods as they are.
// `kind` keeps TCP's and UDP's apart.
Rng flow_rng(std::uint64_t seed, std::uint16_t kind, std::uint16_t number);

}  // namespace tiercast::ns3_runtime
