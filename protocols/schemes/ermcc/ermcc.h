// ERMCC: Explicit Rate Multicast Congestion Control (Li, Yuksel, Kalyanaraman, 2005). Notes and
// calibration: docs/protocols/ermcc.md.
#pragma once

#include "protocols/core/registry.h"

namespace tiercast::ermcc {

Scheme scheme();

}  // namespace tiercast::ermcc
