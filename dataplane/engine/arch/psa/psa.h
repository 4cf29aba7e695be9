// The Portable Switch Architecture (PSA), as bmv2's psa_switch implements it.
#pragma once

#include "dataplane/engine/arch/architecture.h"

namespace tiercast::engine {

const Architecture& psa();

}  // namespace tiercast::engine
