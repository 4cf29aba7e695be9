// Finds which cells of a packet matter: those that flat code may read before it writes them. The
// others need not be written or cleared for a new packet, nor copied to a replica.
#include <algorithm>

#include "dataplane/engine/flat/flat_liveness.h"
#include "dataplane/engine/flat/flatten.h"

namespace tiercast::engine {

namespace {

// The largest size of the sets of cells of a whole program, in 64-bit words. Above it all cells
// count as live.
constexpr std::size_t kMostWords = 1 << 19;
constexpr std::uint32_t kLargestGap = 24;  // cells; runs that are this close are treated as one

}  // namespace

void live_before(const Image& image, const FlatInstruction& i, const CellSet& at_end, CellSet& live,
                 Reads reads) {
  const Operands o = operands(i.op);
  if (o.d) {
    live.remove(i.d);
  } else {
    for (std::uint32_t cell : writes(image, i).certain) live.remove(cell);
  }
  if (may_end(i.op)) live.add(at_end);
  add_reads(image, i, live, reads);
}

std::vector<CellSet> live_at_blocks(const Image& image, const FlatGraph& graph,
                                    const CellSet& at_end, Reads reads) {
  return backwards(
      graph, at_end, CellSet(image.phv_cells),
      [&](const FlatInstruction& i, CellSet& live) { live_before(image, i, at_end, live, reads); },
      [](const FlatBlock&, std::size_t, CellSet&) {});
}

bool is_too_large_to_analyse(const Image& image) {
  return image.flat.code.size() * (image.phv_cells / 64 + 1) > kMostWords;
}

std::vector<CellRun> runs(const CellSet& cells, std::uint32_t count, std::uint32_t largest_gap) {
  std::vector<CellRun> found;
  for (std::uint32_t cell = 0; cell < count; ++cell) {
    if (!cells.has(cell)) continue;
    if (!found.empty() && cell - (found.back().first + found.back().count) <= largest_gap) {
      found.back().count = cell + 1 - found.back().first;
    } else {
      found.push_back({cell, 1});
    }
  }
  return found;
}

namespace {

// Finds the fields that flat code reads from headers that came with the frame.
void find_extracted_fields(Image& image) {
  for (HeaderPlan& plan : image.header_plans) plan.flat_read = plan.read;
  const FlatCode& flat = image.flat;
  if (!flat.present() || is_too_large_to_analyse(image)) return;
  constexpr Reads kReads = Reads::kReceived;
  const auto live_at = [&](std::uint32_t start, const CellSet& at_end) {
    return live_at_blocks(image, to_blocks(image, flat, start), at_end, kReads)[0];
  };
  const CellSet outside = cells_used_outside(image, kReads);
  const CellSet leaves = live_at(flat.update_checksums, outside);
  CellSet queued = live_at(flat.egress, leaves);
  queued.add(outside);
  for (std::uint32_t cell = 0; cell < image.shared_cells; ++cell) {
    if (queued.has(cell)) image.egress_reads.push_back(cell);
  }
  CellSet parsed = live_at(flat.ingress, queued);
  parsed.add(outside);
  parsed = live_at(flat.verify_checksums, parsed);
  parsed.add(outside);
  parsed.add(queued);
  // What is live after each extraction.
  CellSet parsed_reads(image.phv_cells);
  const FlatGraph parser = to_blocks(image, flat, flat.parser);
  const std::vector<CellSet> live = live_at_blocks(image, parser, parsed, kReads);
  for (std::uint32_t b : in_order(parser)) {
    const FlatBlock& block = parser.blocks[b];
    CellSet now = ends(block.last.op) ? parsed : CellSet(image.phv_cells);
    for (std::uint32_t to : block.next) now.add(live[to]);
    // A called state does not say which fields it extracts.
    if (block.last.op == FlatOp::kRunState) return;
    live_before(image, block.last, parsed, now, kReads);
    for (auto i = block.body.rbegin(); i != block.body.rend(); ++i) {
      if (i->op == FlatOp::kExtract) parsed_reads.add(now);
      live_before(image, *i, parsed, now, kReads);
    }
  }
  for (HeaderPlan& plan : image.header_plans) {
    std::erase_if(plan.flat_read, [&](const FieldPlan& f) { return !parsed_reads.has(f.cell); });
  }
}

// Finds what egress and the checksums after it may do to headers that leave.
void find_egress_watch(Image& image) {
  if (!image.deparser_code.empty() || !image.always_dirty.empty()) return;
  CellSet written = written_from(image, image.flat.egress);
  written.add(written_from(image, image.flat.update_checksums));
  std::vector<std::uint32_t> watch;
  for (const DeparseStep& step : image.deparse_steps) {
    if (step.origin_cell == 0 || written.has(step.origin_cell)) return;
    for (const std::uint32_t cell : {step.valid_cell, step.dirty_cell}) {
      if (written.has(cell)) watch.push_back(cell);
    }
  }
  if (!written.has(image.tracked_cell)) image.egress_watch = std::move(watch);
}

}  // namespace

void find_live_cells(Image& image) {
  find_extracted_fields(image);
  const FlatCode& flat = image.flat;
  if (!flat.present() || is_too_large_to_analyse(image)) {
    image.initial_runs = image.copied_runs = {{0, image.phv_cells}};
    return;
  }
  const auto live_at = [&](std::uint32_t start, const CellSet& at_end) {
    return live_at_blocks(image, to_blocks(image, flat, start), at_end)[0];
  };
  const CellSet outside = cells_used_outside(image);
  const CellSet leaves = live_at(flat.update_checksums, outside);
  CellSet queued = live_at(flat.egress, leaves);
  queued.add(outside);
  CellSet fresh = live_at(flat.ingress, queued);
  fresh.add(outside);
  fresh = live_at(flat.verify_checksums, fresh);
  fresh.add(outside);
  fresh.add(queued);  // for a clone, which goes from the parser straight to the queue
  fresh = live_at(flat.parser, fresh);
  // The cells from shared_cells on do not outlive their part.
  image.initial_runs = runs(fresh, image.shared_cells, kLargestGap);
  image.copied_runs = runs(queued, image.shared_cells, kLargestGap);
  find_egress_watch(image);
  image.early_rewrite = std::none_of(
      image.copied_headers.begin(), image.copied_headers.end(),
      [&](std::uint32_t header) { return queued.has(image.header_plans[header].origin_cell); });
}

}  // namespace tiercast::engine
