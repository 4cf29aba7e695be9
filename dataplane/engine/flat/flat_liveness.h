// Which cells are live (may still be read) at each place of flat code.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "dataplane/engine/flat/flat_blocks.h"
#include "dataplane/engine/flat/flat_effects.h"

namespace tiercast::engine {

// Turns the cells that are live after an instruction into those that are live before it. at_end:
// the cells that are live where the part ends.
void live_before(const Image& image, const FlatInstruction& instruction, const CellSet& at_end,
                 CellSet& live, Reads reads = Reads::kAll);

// What holds at the start of each block, found backwards through the graph. State: what holds at a
// place, with add(), which joins it with what holds on another path. at_end: what holds where the
// part ends; nothing: what holds where nothing follows. before(instruction, state) turns what holds
// after an instruction into what holds before it. along(block, k, state) adds what is known where
// the block continues with its successor k.
template <class State, class Before, class Along>
std::vector<State> backwards(const FlatGraph& graph, const State& at_end, const State& nothing,
                             const Before& before, const Along& along) {
  std::vector<State> found(graph.blocks.size(), nothing);
  const std::vector<std::uint32_t> order = in_order(graph);
  for (bool changed = true; changed;) {  // two rounds; more if there are loops
    changed = false;
    for (auto b = order.rbegin(); b != order.rend(); ++b) {
      const FlatBlock& block = graph.blocks[*b];
      State now = ends(block.last.op) ? at_end : nothing;
      for (std::size_t k = 0; k < block.next.size(); ++k) {
        State then = found[block.next[k]];
        along(block, k, then);
        now.add(then);
      }
      before(block.last, now);
      for (auto i = block.body.rbegin(); i != block.body.rend(); ++i) before(*i, now);
      if (now == found[*b]) continue;
      found[*b] = std::move(now);
      changed = true;
    }
  }
  return found;
}

// The cells that are live at the start of each block.
std::vector<CellSet> live_at_blocks(const Image& image, const FlatGraph& graph,
                                    const CellSet& at_end, Reads reads = Reads::kAll);

// The analyses take time and memory in proportion to instructions times cells. Above this size they
// are skipped.
bool is_too_large_to_analyse(const Image& image);

// The cells below `count`, as runs; those that are at most `largest_gap` cells apart are one.
std::vector<CellRun> runs(const CellSet& cells, std::uint32_t count, std::uint32_t largest_gap);

}  // namespace tiercast::engine
