#include "dataplane/engine/native/live_cells.h"

#include <algorithm>
#include <span>

#include "dataplane/engine/flat/flat_liveness.h"

namespace tiercast::engine {

namespace {

constexpr std::uint32_t kLargestGap = 3;  // cells; runs that are this close are treated as one

std::vector<CellRun> runs(const CellSet& cells, std::uint32_t count) {
  std::vector<CellRun> found;
  for (std::uint32_t cell = 0; cell < count; ++cell) {
    if (!cells.has(cell)) continue;
    if (!found.empty() && cell - (found.back().first + found.back().count) <= kLargestGap) {
      found.back().count = cell + 1 - found.back().first;
    } else {
      found.push_back({cell, 1});
    }
  }
  return found;
}

bool only_extracts(const Image& image, const FlatInstruction& i) {
  for (auto at = static_cast<std::uint32_t>(i.i); at < i.target; ++at) {
    const Op op = image.code[at].op;
    if (op != Op::kExtract && op != Op::kExtractStack && op != Op::kConstant) return false;
  }
  return true;
}

// The cells that a part of flat code may write, except by extracting a header, which writes all of
// it.
CellSet written_by(const Image& image, std::uint32_t start) {
  CellSet written(image.phv_cells);
  const FlatGraph graph = to_blocks(image, image.flat, start);
  const auto note = [&](const FlatInstruction& i) {
    if (i.op == FlatOp::kExtract || (i.op == FlatOp::kCall && only_extracts(image, i))) return;
    const Writes w = writes(image, i);
    if (w.any) written.add_all();
    if (operands(i.op).d) written.add(i.d);
    for (std::uint32_t cell : w.certain) written.add(cell);
    for (std::uint32_t cell : w.perhaps) written.add(cell);
  };
  for (std::uint32_t b : in_order(graph)) {
    for (const FlatInstruction& i : graph.blocks[b].body) note(i);
    note(graph.blocks[b].last);
  }
  return written;
}

CellSet fields_of(const Image& image, std::uint32_t h) {
  CellSet cells(image.phv_cells);
  cells.add(image.headers[h].valid_cell + 1, image.headers[h].cells - 1);
  return cells;
}

// Whether the header may become valid, or come from elsewhere, otherwise than by extraction.
bool may_add(const Image& image, std::uint32_t h, const CellSet& written) {
  const HeaderPlan& plan = image.header_plans[h];
  return written.has(image.headers[h].valid_cell) || (plan.plain && written.has(plan.origin_cell));
}

// Whether it is read of headers that are not valid, too.
bool is_watched(const Image& image, std::uint32_t cell) {
  return image.egress_watch &&
         std::count(image.egress_watch->begin(), image.egress_watch->end(), cell) > 0;
}

LiveCells::OfHeader copied_fields(const Image& image, std::uint32_t h, const CellSet& written,
                                  const CellSet& copied) {
  const HeaderPlan& plan = image.header_plans[h];
  LiveCells::OfHeader of{h, {}, {}, {}};
  const auto others = [&](CellSet fields) {
    for (std::uint32_t c = 0; c < image.shared_cells; ++c) {
      if (copied.has(c)) fields.remove(c);
    }
    return runs(fields, image.shared_cells);
  };
  if (!plan.plain) {
    of.valid = others(fields_of(image, h));
    return of;
  }
  CellSet always(image.phv_cells), changed(image.phv_cells);
  always.add(plan.origin_cell);
  always.add(plan.dirty_cell);
  for (const FieldPlan& field : plan.write) changed.add(field.cell);
  if (written.has(plan.dirty_cell)) {
    always.add(changed);
  } else {
    of.dirty = others(changed);
  }
  of.valid = others(always);
  of.added = others(fields_of(image, h));
  return of;
}

}  // namespace

LiveCells find_native_live_cells(const Image& image) {
  const FlatCode& flat = image.flat;
  if (is_too_large_to_analyse(image) || !image.deparser_code.empty()) {
    return {image.initial_runs, image.copied_runs, {}};
  }
  const auto live_at = [&](std::uint32_t start, const CellSet& at_end) {
    return live_at_blocks(image, to_blocks(image, flat, start), at_end)[0];
  };
  std::vector<std::uint32_t> leaving = image.deparser_order;
  std::sort(leaving.begin(), leaving.end());
  leaving.erase(std::unique(leaving.begin(), leaving.end()), leaving.end());

  CellSet written = written_by(image, flat.egress);
  written.add(written_by(image, flat.update_checksums));
  CellSet between = cells_used_between(image);
  CellSet at_egress = between;
  for (const std::uint32_t h : leaving) {
    const HeaderPlan& plan = image.header_plans[h];
    if (may_add(image, h, written)) {
      at_egress.add(fields_of(image, h));
    } else if (plan.plain && !is_watched(image, plan.dirty_cell)) {
      at_egress.remove(plan.origin_cell);
      at_egress.remove(plan.dirty_cell);
    }
  }
  CellSet queued = live_at(flat.egress, live_at(flat.update_checksums, at_egress));
  queued.add(at_egress);

  LiveCells live;
  live.copied = runs(queued, image.shared_cells);
  for (const std::uint32_t h : leaving) {
    if (may_add(image, h, written)) continue;
    live.headers.push_back(copied_fields(image, h, written, queued));
  }

  // A header that is only ever extracted has all its fields from there.
  for (const std::uint32_t part : {flat.parser, flat.verify_checksums, flat.ingress}) {
    written.add(written_by(image, part));
  }
  for (const std::uint32_t h : leaving) {
    if (may_add(image, h, written)) between.add(fields_of(image, h));
  }
  queued.add(between);
  CellSet fresh = live_at(flat.ingress, queued);
  fresh.add(between);
  fresh = live_at(flat.verify_checksums, fresh);
  fresh.add(between);
  fresh.add(queued);  // for a clone, which goes from the parser straight to the queue
  live.cleared = runs(live_at(flat.parser, fresh), image.shared_cells);
  return live;
}

}  // namespace tiercast::engine
