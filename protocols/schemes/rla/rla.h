// RLA: the random listening algorithm, reliable multicast with a window (Wang and Schwartz,
// "Achieving Bounded Fairness for Multicast and TCP Traffic in the Internet", SIGCOMM 1998).
// Notes: docs/protocols/rla.md.
#pragma once

#include "protocols/core/registry.h"

namespace tiercast::rla {

Scheme scheme();

}  // namespace tiercast::rla
