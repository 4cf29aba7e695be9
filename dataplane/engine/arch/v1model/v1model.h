// The v1model architecture, as bmv2's simple_switch implements it.
#pragma once

#include "dataplane/engine/arch/architecture.h"

namespace tiercast::engine {

const Architecture& v1model();

}  // namespace tiercast::engine
