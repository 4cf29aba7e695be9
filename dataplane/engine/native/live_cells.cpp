#include "dataplane/engine/native/live_cells.h"

#include <algorithm>
#include <vector>

#include "dataplane/engine/flat/flat_blocks.h"
#include "dataplane/engine/flat/flat_effects.h"
#include "dataplane/engine/flat/flat_liveness.h"

namespace tiercast::engine {

namespace {

constexpr std::uint32_t kLargestGap = 3;  // cells; runs that are this close are treated as one

std::vector<CellRun> runs(const CellSet& cells, std::uint32_t count) {
  return runs(cells, count, kLargestGap);
}

CellSet fields_of(const Image& image, std::uint32_t h) {
  CellSet cells(image.phv_cells);
  cells.add(image.headers[h].valid_cell + 1, image.headers[h].cells - 1);
  return cells;
}

// What may still be read: `live` in any case, `pending` if the header whose field it is is valid at
// that place.
struct LaterReads {
  explicit LaterReads(const Image& image) : live(image.phv_cells), pending(image.phv_cells) {}
  void add(const LaterReads& other) {
    live.add(other.live);
    pending.add(other.pending);
  }
  bool operator==(const LaterReads&) const = default;
  CellSet live, pending;
};

// Goes backwards through flat code, like live_before(). Where a header becomes valid otherwise than
// by extraction, what is pending of it is live, since nobody may have written it.
class LaterReadsOf {
 public:
  explicit LaterReadsOf(const Image& image) : image_(image), header_of_(image.phv_cells, kNone) {
    for (std::uint32_t h = 0; h < image.headers.size(); ++h) {
      header_of_[image.headers[h].valid_cell] = h;
      if (image.header_plans[h].plain) header_of_[image.header_plans[h].origin_cell] = h;
    }
  }

  LaterReads at_start(std::uint32_t start, const LaterReads& at_end) const {
    const FlatGraph graph = to_blocks(image_, image_.flat, start);
    return backwards(
        graph, at_end, LaterReads(image_),
        [&](const FlatInstruction& i, LaterReads& now) { before(i, at_end, now); },
        [&](const FlatBlock& block, std::size_t k, LaterReads& now) { along(block, k, now); })[0];
  }

 private:
  void before(const FlatInstruction& i, const LaterReads& at_end, LaterReads& now) const {
    const Writes w = writes(image_, i);
    const bool extracts = i.op == FlatOp::kExtract;
    const bool clears = i.op == FlatOp::kClear || (i.op == FlatOp::kSet && i.i == 0);
    if (operands(i.op).d) {
      remove(i.d, now);
      settle(i.d, extracts || clears, now);
    }
    for (const std::uint32_t cell : w.certain) remove(cell, now);
    for (const std::uint32_t cell : w.certain) settle(cell, extracts || clears, now);
    for (const std::uint32_t cell : w.perhaps) settle(cell, false, now);
    if (w.any) now.live.add(now.pending);
    if (may_end(i.op)) now.add(at_end);
    add_reads(image_, i, now.live);
  }
  // Behind a question whether a header is there: its fields matter if it is, or not at all. The
  // same goes for the headers that have just been made as valid as it is, as in an assignment.
  void along(const FlatBlock& block, std::size_t successor, LaterReads& now) const {
    const FlatInstruction& jump = block.last;
    if ((jump.op != FlatOp::kJumpEqualI && jump.op != FlatOp::kJumpNotEqualI) || jump.i > 1) return;
    const bool equal = (jump.op == FlatOp::kJumpEqualI) == (successor == 0);
    const bool valid = equal == (jump.i == 1);
    learn(jump.x, valid, now);
    for (auto i = block.body.rbegin(); i != block.body.rend(); ++i) {
      if (i->op != FlatOp::kMove || i->x != jump.x || i->d == jump.x) break;
      learn(i->d, valid, now);
    }
  }
  void learn(std::uint32_t cell, bool valid, LaterReads& now) const {
    const std::uint32_t h = header_of_[cell];
    if (h == kNone || cell != image_.headers[h].valid_cell) return;
    const CellSet fields = fields_of(image_, h);
    if (valid) {
      now.pending.add(now.live.common(fields));
      now.live.remove(fields);
    } else {
      now.pending.remove(fields);
    }
  }
  static void remove(std::uint32_t cell, LaterReads& now) {
    now.live.remove(cell);
    now.pending.remove(cell);
  }
  // The cell is written. If it says whether or whence a header is there: forgets what is pending of
  // a header that is now complete or gone; otherwise it is live.
  void settle(std::uint32_t cell, bool complete_or_gone, LaterReads& now) const {
    const std::uint32_t h = header_of_[cell];
    if (h == kNone) return;
    const CellSet fields = fields_of(image_, h);
    if (!complete_or_gone) now.live.add(now.pending.common(fields));
    now.pending.remove(fields);
  }

  const Image& image_;
  std::vector<std::uint32_t> header_of_;  // by validity and origin cell
};

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

// `read`: what egress reads of headers that are valid there.
LiveCells::OfHeader copied_fields(const Image& image, std::uint32_t h, const CellSet& written,
                                  const CellSet& copied, const CellSet& read) {
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
  always.add(fields_of(image, h).common(read));
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
  std::vector<std::uint32_t> leaving = image.deparser_order;
  std::sort(leaving.begin(), leaving.end());
  leaving.erase(std::unique(leaving.begin(), leaving.end()), leaving.end());
  CellSet written = written_from(image, flat.egress);
  written.add(written_from(image, flat.update_checksums));

  LaterReads between(image);  // of the engine, between the parts and after them
  between.live = cells_used_between(image);
  const LaterReadsOf reads(image);
  const auto behind_queue = [&] {
    LaterReads queued = reads.at_start(flat.egress, reads.at_start(flat.update_checksums, between));
    queued.add(between);
    return queued;
  };
  const CellSet read_of_valid = behind_queue().pending;  // by the program alone
  for (const std::uint32_t h : leaving) between.pending.add(fields_of(image, h));
  const LaterReads queued = behind_queue();

  CellSet copied = queued.live;
  for (std::uint32_t h = 0; h < image.headers.size(); ++h) {
    if (std::binary_search(leaving.begin(), leaving.end(), h)) continue;
    copied.add(fields_of(image, h).common(read_of_valid));
  }
  for (const std::uint32_t h : leaving) {
    const HeaderPlan& plan = image.header_plans[h];
    if (!plan.plain || may_add(image, h, written) || is_watched(image, plan.dirty_cell)) continue;
    copied.remove(plan.origin_cell);
    copied.remove(plan.dirty_cell);
  }
  LiveCells live;
  live.copied = runs(copied, image.shared_cells);
  for (const std::uint32_t h : leaving) {
    live.headers.push_back(copied_fields(image, h, written, copied, read_of_valid));
  }

  LaterReads fresh = reads.at_start(flat.ingress, queued);
  fresh.add(between);
  fresh = reads.at_start(flat.verify_checksums, fresh);
  fresh.add(between);
  fresh.add(queued);  // for a clone, which goes from the parser straight to the queue
  // No header is valid yet, so nothing that is pending matters.
  live.cleared = runs(reads.at_start(flat.parser, fresh).live, image.shared_cells);
  return live;
}

}  // namespace tiercast::engine
