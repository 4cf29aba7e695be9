// Traffic that comes and goes: the lengths of on- and off-periods, drawn from a distribution.
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <cstdint>
#include <optional>

#include "protocols/base/rng.h"

namespace tiercast::ns3_runtime {

// A length with a mean: of a period in nanoseconds, or of a transfer in packets.
struct LengthSpec {
  enum class Distribution { kConstant, kExponential, kPareto };
  enum class Unit { kNanoseconds, kPackets };

  Distribution distribution = Distribution::kConstant;
  Unit unit = Unit::kNanoseconds;
  double mean = 0;   // > 0
  double shape = 0;  // of kPareto, > 1: the mean exists

  // 1 to 10^18 of the unit.
  std::uint64_t draw(Rng& rng) const;
};

struct OnOffSpec {
  LengthSpec on;   // the first begins at the flow's start, as ns-2's sources do
  LengthSpec off;  // kNanoseconds
};

// Random numbers of one flow's own, so that adding a flow leaves the others' periods as they are.
// `kind` keeps TCP's and UDP's apart.
Rng flow_rng(std::uint64_t seed, std::uint16_t kind, std::uint16_t number);

}  // namespace tiercast::ns3_runtime
