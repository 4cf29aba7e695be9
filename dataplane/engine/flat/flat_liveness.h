// Which cells are live (may still be read) at each place of flat code.
#pragma once

#include <vector>

#include "dataplane/engine/flat/flat_blocks.h"
#include "dataplane/engine/flat/flat_effects.h"

namespace tiercast::engine {

// Turns the cells that are live after an instruction into those that are live before it. at_end:
// the cells that are live where the part ends.
void live_before(const Image& image, const FlatInstruction& instruction, const CellSet& at_end,
                 CellSet& live, Reads reads = Reads::kAll);

// The cells that are live at the start of each block.
std::vector<CellSet> live_at_blocks(const Image& image, const FlatGraph& graph,
                                    const CellSet& at_end, Reads reads = Reads::kAll);

// The analyses take time and memory in proportion to instructions times cells. Above this size they
// are skipped.
bool is_too_large_to_analyse(const Image& image);

}  // namespace tiercast::engine
