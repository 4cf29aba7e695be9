// TFMCC: TCP-Friendly Multicast Congestion Control (Widmer and Handley, RFC 4654). Notes:
// docs/protocols/tfmcc.md.
#pragma once

#include "protocols/core/registry.h"

namespace tiercast::tfmcc {

Scheme scheme();

}  // namespace tiercast::tfmcc
