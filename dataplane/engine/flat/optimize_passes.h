// The passes of optimize(). Each works on one part of the flat code.
#pragma once

#include "dataplane/engine/flat/flat_blocks.h"
#include "dataplane/engine/flat/flat_effects.h"

namespace tiercast::engine {

// optimize_values.cpp
void propagate_values(const Image& image, FlatGraph& graph);

// optimize_dead.cpp. at_end: the cells that are live where the part ends.
void remove_dead(const Image& image, FlatGraph& graph, const CellSet& at_end);
// Joins blocks that can only follow one another.
void join_blocks(FlatGraph& graph);
// Clears and copies neighbouring cells together.
void fuse_runs(FlatGraph& graph);

}  // namespace tiercast::engine
