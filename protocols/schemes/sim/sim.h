// SIM: Selective participation, Intra-group transmission adjustment, Menu adaptation
// (Gorinsky, Ramakrishnan, Vin, TR2000-31). Notes and calibration: docs/protocols/sim.md.
#pragma once

#include "protocols/core/registry.h"

namespace tiercast::sim {

Scheme scheme();

}  // namespace tiercast::sim
