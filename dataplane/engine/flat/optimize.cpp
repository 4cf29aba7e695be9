// The order of the passes, and what they may assume.
//
// When a part of the flat code starts, nothing is known about the cells. When it ends, the cells
// that matter are those that the parts after it, or the code outside flat code
// (cells_used_outside()), read. Therefore the parts are optimized from the last to the first.
// Within a part the passes are free: nothing looks at the packet vector while the part runs except
// its instructions, which say what they read and write (flat_effects.h). Traced packets run the
// image's nodes instead.
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
  // Returns the cells that matter where the part starts.
  const auto part = [&](std::uint32_t from, std::uint32_t& to, const CellSet& at_end) {
    FlatGraph graph = to_blocks(image, before, from);
    for (int round = 0; round < 2; ++round) {  // what one pass removes may let the other find more
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
  // Start with the last part: it determines what the part before it must leave.
  const CellSet leaves = part(before.update_checksums, after.update_checksums, outside);
  const CellSet queued = part(before.egress, after.egress, leaves);
  const CellSet ingress = part(before.ingress, after.ingress, queued);
  CellSet parsed = part(before.verify_checksums, after.verify_checksums, ingress);
  parsed.add(queued);  // for a clone, which goes from the parser straight to the queue
  part(before.parser, after.parser, parsed);
  image.flat = std::move(after);
}

}  // namespace tiercast::engine
