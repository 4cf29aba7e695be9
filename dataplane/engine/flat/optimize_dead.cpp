// Removes computations whose result is never read, and merges neighbouring ones.
//
// p4c declares its temporaries at the top and sets whole structures to 0 there. So most of a
// program's writes are never read, and most of the others write zeros to neighbouring cells. An
// instruction may be removed if it is pure (flat_effects.h) and no path from it reads its cell
// before writing it. Calls, tables and anything that may end the code early count as reading
// everything that they, or the code after them, could read.
#include <algorithm>
#include <map>

#include "dataplane/engine/flat/flat_liveness.h"
#include "dataplane/engine/flat/optimize_passes.h"

namespace tiercast::engine {

namespace {

bool remove_once(const Image& image, FlatGraph& graph, const CellSet& at_end) {
  const std::vector<CellSet> live = live_at_blocks(image, graph, at_end);
  bool changed = false;
  for (std::uint32_t b : in_order(graph)) {
    FlatBlock& block = graph.blocks[b];
    CellSet now = ends(block.last.op) ? at_end : CellSet(image.phv_cells);
    for (std::uint32_t to : block.next) now.add(live[to]);
    live_before(image, block.last, at_end, now);
    std::vector<FlatInstruction> kept;
    for (auto i = block.body.rbegin(); i != block.body.rend(); ++i) {
      if (is_pure(i->op) && !now.has(i->d)) {
        changed = true;
        continue;
      }
      live_before(image, *i, at_end, now);
      kept.push_back(*i);
    }
    std::reverse(kept.begin(), kept.end());
    block.body = std::move(kept);
  }
  return changed;
}

// The number of instructions from `first` on that are `same`.
template <class Same>
std::size_t run_length(const std::vector<FlatInstruction>& body, std::size_t first, Same same) {
  std::size_t end = first;
  while (end < body.size() && same(end)) ++end;
  return end - first;
}

// Merges Sets that follow one another, whatever the order of their cells: zeros in neighbouring
// cells become one Clear.
void fuse_sets(const std::vector<FlatInstruction>& body, std::size_t first, std::size_t count,
               std::vector<FlatInstruction>& out) {
  std::map<std::uint16_t, Cell> values;
  for (std::size_t n = first; n < first + count; ++n) values[body[n].d] = body[n].i;
  for (auto at = values.begin(); at != values.end();) {
    std::uint16_t zeros = 0;
    auto end = at;
    while (end != values.end() && end->second == 0 && end->first == at->first + zeros) {
      ++end;
      ++zeros;
    }
    if (zeros > 1) {
      out.push_back({.op = FlatOp::kClear, .d = at->first, .i = zeros});
      at = end;
    } else {
      out.push_back({.op = FlatOp::kSet, .d = at->first, .i = at->second});
      ++at;
    }
  }
}

}  // namespace

void remove_dead(const Image& image, FlatGraph& graph, const CellSet& at_end) {
  for (FlatBlock& block : graph.blocks) {
    if (is_conditional_jump(block.last.op) && block.next[0] == block.next[1]) {
      block.last = {.op = FlatOp::kJump};
      block.next.pop_back();
    }
  }
  while (remove_once(image, graph, at_end)) {
  }
}

void join_blocks(FlatGraph& graph) {
  std::vector<std::uint32_t> leading_here(graph.blocks.size());
  const std::vector<std::uint32_t> order = in_order(graph);
  ++leading_here[0];
  for (std::uint32_t b : order) {
    for (std::uint32_t to : graph.blocks[b].next) ++leading_here[to];
  }
  for (std::uint32_t b : order) {
    FlatBlock& block = graph.blocks[b];
    while (block.last.op == FlatOp::kJump && block.next[0] != b &&
           leading_here[block.next[0]] == 1) {
      FlatBlock& after = graph.blocks[block.next[0]];
      block.body.insert(block.body.end(), after.body.begin(), after.body.end());
      block.last = after.last;
      // `after` is now unreachable and leads nowhere.
      const std::vector<std::uint32_t> next = std::move(after.next);
      after = {{}, {.op = FlatOp::kEnd}, {}};
      block.next = next;
    }
  }
}

void fuse_runs(FlatGraph& graph) {
  for (FlatBlock& block : graph.blocks) {
    std::vector<FlatInstruction> out;
    const std::vector<FlatInstruction>& body = block.body;
    for (std::size_t at = 0; at < body.size();) {
      const auto is_set = [&](std::size_t n) { return body[n].op == FlatOp::kSet; };
      if (const std::size_t sets = run_length(body, at, is_set); sets > 0) {
        fuse_sets(body, at, sets, out);
        at += sets;
        continue;
      }
      const FlatInstruction& first = body[at];
      const std::size_t copies = run_length(body, at, [&](std::size_t n) {
        return body[n].op == FlatOp::kMove && body[n].mask == ~Cell{0} &&
               body[n].d == first.d + (n - at) && body[n].x == first.x + (n - at);
      });
      const bool apart = first.x + copies <= first.d || first.d + copies <= first.x;
      if (copies > 1 && apart) {
        out.push_back({.op = FlatOp::kCopy, .d = first.d, .x = first.x, .i = copies});
        at += copies;
        continue;
      }
      out.push_back(first);
      ++at;
    }
    block.body = std::move(out);
  }
}

}  // namespace tiercast::engine
