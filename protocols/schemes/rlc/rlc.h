// RLC: receiver-driven layered congestion control (Vicisano, Rizzo, Crowcroft, INFOCOM 1998).
// Notes: docs/protocols/rlc.md.
#pragma once

#include "protocols/core/registry.h"

namespace tiercast::rlc {

Scheme scheme();

}  // namespace tiercast::rlc
