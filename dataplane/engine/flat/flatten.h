// Makes the fast form of an image.
#pragma once

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// Fills image.header_plans and checksum_plans, and adds the cells for the headers' origins.
void plan_headers(Image& image);

// Fills image.flat and adds the cells for intermediate results. Leaves image.flat absent if the
// program's flat code would be too long.
void flatten(Image& image);

// Fills image.initial_runs and copied_runs.
void find_live_cells(Image& image);

}  // namespace tiercast::engine
