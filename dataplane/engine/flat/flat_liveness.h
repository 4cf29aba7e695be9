// Which cells matter at each place of flat code.
#pragma once

#include <vector>

#include "dataplane/engine/flat/flat_blocks.h"
#include "dataplane/engine/flat/flat_effects.h"

namespace tiercast::engine {

// From the cells that matter behind an instruction to those that matter before it. at_end: those
// that matter where the part ends.
void live_before(const Image& image, const FlatInstruction& instruction, const CellSet& at_end,
                 CellSet& live, Reads reads = Reads::kAll);

// The cells that matter at the beginning of each block.
std::vector<CellSet> live_at_blocks(const Image& image, const FlatGraph& graph,
                                    const CellSet& at_end, Reads reads = Reads::kAll);

// Analyses take time and memory by instructions and cells: above this size they are left out.
bool is_too_large_to_analyse(const Image& image);

}  // namespace tiercast::engine
