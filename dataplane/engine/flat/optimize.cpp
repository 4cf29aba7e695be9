// The order of the passes, and what they may assume.
//
// A part of the flat code begins with cells of which nothing is known, and ends with those that
// matter to the parts behind it, or outside flat code (cells_used_outside()). The parts therefore
// are shortened from the last to the first. What a part does in between is the passes' own affair:
// nobody looks at the packet vector while it runs but the instructions themselves, which say what
// they read and write (flat_effects.h). Traced packets run the image's nodes instead.
#include "dataplane/engine/flat/optimize.h"

#include <utility>

#include "dataplane/engine/flat/flat_liveness.h"
#include "dataplane/engine/flat/optimize_passes.h"

namespace tiercast::engine {

void optimize(Image& image) {
  if (!image.flat.present() || is_too_large_to_analyse(image)) return;
  const FlatCode before = std::move(image.flat);
  FlatCode after;
  const CellSet outside = cells_used_outside(image);
  // Returns what matters where the part begins.
  const auto part = [&](std::uint32_t from, std::uint32_t& to, const CellSet& at_end) {
    FlatGraph graph = to_blocks(image, before, from);
    for (int round = 0; round < 2; ++round) {  // what one pass removes lets another see more
      propagate_values(image, graph);
      join_blocks(graph);
      remove_dead(image, graph, at_end);
    }
    join_blocks(graph);
    fuse_runs(graph);
    to = append_blocks(graph, after);
    CellSet live = live_at_blocks(image, graph, at_end)[0];
    live.add(outside);
    return live;
  };
  // The last part first: it says what the one before it must leave behind.
  const CellSet leaves = part(before.update_checksums, after.update_checksums, outside);
  const CellSet queued = part(before.egress, after.egress, leaves);
  const CellSet ingress = part(before.ingress, after.ingress, queued);
  CellSet parsed = part(before.verify_checksums, after.verify_checksums, ingress);
  parsed.add(queued);  // a clone goes from the parser to the queue
  part(before.parser, after.parser, parsed);
  image.flat = std::move(after);
}

}  // namespace tiercast::engine
