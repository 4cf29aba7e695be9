// PLM: packet-pair receiver-driven layered multicast (Legout, Biersack, SIGMETRICS 2000), after
// ns-2's implementation. Notes: docs/protocols/plm.md.
#pragma once

#include "protocols/core/registry.h"

namespace tiercast::plm {

Scheme scheme();

}  // namespace tiercast::plm
