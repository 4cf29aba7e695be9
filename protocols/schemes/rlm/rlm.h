// RLM: Receiver-driven Layered Multicast (McCanne, Jacobson, Vetterli, SIGCOMM 1996), after ns-2's
// implementation. Notes: docs/protocols/rlm.md.
#pragma once

#include "protocols/core/registry.h"

namespace tiercast::rlm {

Scheme scheme();

}  // namespace tiercast::rlm
