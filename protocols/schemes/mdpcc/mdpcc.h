// MDP-CC: the congestion control of the Multicast Dissemination Protocol, with its NACK-based
// repair (Macker and Adamson, Reliable Multicast Congestion Control, 2000). Notes:
// docs/protocols/mdpcc.md.
#pragma once

#include "protocols/core/registry.h"

namespace tiercast::mdpcc {

Scheme scheme();

}  // namespace tiercast::mdpcc
