// MDP-CC: the congestion control of the Multicast Dissemination Protocol, and its repair by NACKs
// (Macker and Adamson, Reliable Multicast Congestion Control, 2000). Notes:
// docs/protocols/mdpcc.md.
#pragma once

#include "protocols/core/registry.h"

namespace tiercast::mdpcc {

Scheme scheme();

}  // namespace tiercast::mdpcc
