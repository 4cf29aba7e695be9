// Where the cells of the program's registers are. Arrays of one size that the same branches lead to
// are used together, by one index, as a session's slot: their elements of one index stand side by
// side. So a packet finds all of them in a line or two of the cache, and not in one line each.
#pragma once

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

void place_registers(Image& image);

}  // namespace tiercast::engine
