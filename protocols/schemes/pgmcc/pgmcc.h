// PGMCC: single-rate multicast congestion control (Rizzo, SIGCOMM 2000;
// draft-ietf-rmt-bb-pgmcc-03). A TCP-like window runs between the sender and one receiver, the
// acker, which is the one with the lowest expected throughput. Notes: docs/protocols/pgmcc.md.
#pragma once

#include "protocols/core/registry.h"

namespace tiercast::pgmcc {

Scheme scheme();

}  // namespace tiercast::pgmcc
