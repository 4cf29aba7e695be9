// From an image to its fast form.
#pragma once

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// Fills image.header_plans and checksum_plans; adds the origins' cells.
void plan_headers(Image& image);

// Fills image.flat and adds the cells of intermediate results; leaves it absent for a program
// whose flat code would be too long.
void flatten(Image& image);

// Fills image.initial_runs and copied_runs.
void find_live_cells(Image& image);

}  // namespace tiercast::engine
