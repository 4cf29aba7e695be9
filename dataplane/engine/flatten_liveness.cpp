// Which cells of a packet matter: what flat code may read before it writes it. The others need
// neither be cleared for a new packet nor copied to a replica.
#include <algorithm>

#include "dataplane/engine/flatten.h"

namespace tiercast::engine {

namespace {

// Sets of cells take this many 64-bit words for a whole program; above it all cells count.
constexpr std::size_t kMostWords = 1 << 21;
constexpr std::uint32_t kLargestGap = 8;  // cells: two runs this close are handled as one

class Cells {
 public:
  explicit Cells(std::size_t count) : words_((count + 63) / 64) {}
  void add(std::uint32_t cell) { words_[cell / 64] |= Cell{1} << cell % 64; }
  void remove(std::uint32_t cell) { words_[cell / 64] &= ~(Cell{1} << cell % 64); }
  bool has(std::uint32_t cell) const { return words_[cell / 64] >> cell % 64 & 1; }
  void add(std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t c = 0; c < count; ++c) add(first + c);
  }
  void add(const Cells& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }
  void add_all() { std::fill(words_.begin(), words_.end(), ~Cell{0}); }
  bool operator==(const Cells&) const = default;

 private:
  std::vector<Cell> words_;
};

void add_field(Cells& cells, std::uint32_t cell, std::uint32_t width) {
  cells.add(cell, cells_for(width));
}

void add_calculation(const Image& image, std::uint32_t index, Cells& cells) {
  for (const CalculationInput& input : image.calculations[index].inputs) {
    if (input.valid_cell != kNone) cells.add(input.valid_cell);
    if (input.kind == CalculationInput::Kind::kField) add_field(cells, input.cell, input.width);
    if (input.kind == CalculationInput::Kind::kVarbit) {
      cells.add(input.cell, 1 + cells_for(input.width));
    }
    for (std::uint32_t h : input.headers) {
      cells.add(image.headers[h].valid_cell, image.headers[h].cells);
    }
  }
}

// What stack code reads; everything, if it holds anything but arithmetic on fields.
void add_stack_code(const Image& image, std::uint32_t begin, std::uint32_t end, Cells& cells) {
  for (std::uint32_t at = begin; at < end; ++at) {
    const Instruction& i = image.code[at];
    if (i.op == Op::kField || i.op == Op::kSignedField) {
      add_field(cells, i.a, i.width);
    } else if (i.op == Op::kCopyCell) {
      cells.add(i.b);
    } else if (i.op == Op::kHash) {
      add_calculation(image, i.a, cells);
    } else {
      const bool arithmetic = (i.op >= Op::kAdd && i.op <= Op::kSaturateUnsigned) ||
                              (i.op >= Op::kCloneIngress && i.op <= Op::kTruncate) ||
                              i.op == Op::kConstant || i.op == Op::kWideConstant ||
                              i.op == Op::kArgument || i.op == Op::kRegisterRead ||
                              i.op == Op::kRegisterWrite || i.op == Op::kRandom ||
                              i.op == Op::kWide || i.op == Op::kStore || i.op == Op::kSetCell ||
                              i.op == Op::kCopyArgument || i.op == Op::kJump ||
                              i.op == Op::kJumpIfZero || i.op == Op::kCount || i.op == Op::kExit ||
                              i.op == Op::kLookahead || i.op == Op::kAdvance ||
                              i.op == Op::kVerify || i.op == Op::kHeader ||
                              i.op == Op::kAddHeader || i.op == Op::kRemoveHeader ||
                              i.op == Op::kValid;
      if (!arithmetic) return cells.add_all();
    }
  }
}

// From the cells that matter behind an instruction to those that matter before it; `live` holds
// what its successors need.
void before(const Image& image, const FlatInstruction& i, const Cells& at_end, Cells& live) {
  const FlatOp op = i.op;
  const auto immediate = [&](FlatOp first) {  // in a run of pairs: cell, immediate
    return (static_cast<unsigned>(op) - static_cast<unsigned>(first)) % 2 == 1;
  };
  if (op == FlatOp::kSet || op == FlatOp::kArgument) {
    live.remove(i.d);
  } else if (op == FlatOp::kMove || op == FlatOp::kNot || op == FlatOp::kRegisterRead ||
             op == FlatOp::kMinimumI) {
    live.remove(i.d);
    live.add(i.x);
  } else if (op == FlatOp::kSubtractToZero) {
    live.remove(i.d);
    live.add(i.x);
    live.add(i.y);
  } else if ((op >= FlatOp::kAdd && op <= FlatOp::kShiftRightI) ||
             (op >= FlatOp::kEqual && op <= FlatOp::kLessEqualI)) {
    live.remove(i.d);
    live.add(i.x);
    if (!immediate(op < FlatOp::kEqual ? FlatOp::kAdd : FlatOp::kEqual)) live.add(i.y);
  } else if (op >= FlatOp::kJumpEqual && op <= FlatOp::kJumpLessEqualI) {
    live.add(i.x);
    if (!immediate(FlatOp::kJumpEqual)) live.add(i.y);
  } else if (op == FlatOp::kRegisterWrite) {
    live.add(i.x);
    live.add(i.y);
  } else if (op == FlatOp::kCount) {
    live.add(i.x);
  } else if (op == FlatOp::kTable) {
    const Table& table = image.tables[i.i];
    for (const Key& key : table.keys) add_field(live, key.cell, key.width);
    if (table.profile != kNone && image.profiles[table.profile].hash != kNone) {
      add_calculation(image, image.profiles[table.profile].hash, live);
    }
  } else if (op == FlatOp::kAssignHeader) {
    const Header& from = image.headers[i.target];
    live.add(from.valid_cell, from.cells);
    live.add(image.header_plans[i.target].origin_cell);
    live.add(image.header_plans[i.target].dirty_cell);
  } else if (op == FlatOp::kCall || op == FlatOp::kCallCondition) {
    add_stack_code(image, static_cast<std::uint32_t>(i.i), i.target, live);
  } else if (op == FlatOp::kVerifyChecksum || op == FlatOp::kUpdateChecksum) {
    const Checksum& checksum = image.checksums[i.i];
    add_field(live, checksum.cell, checksum.width);
    add_calculation(image, checksum.calculation, live);
  } else if (op == FlatOp::kEnd || op == FlatOp::kExit) {
    live = at_end;
  }
}

// The cells that matter at `start`, a part of the flat code that ends before `end`.
Cells live_at(const Image& image, std::uint32_t start, std::uint32_t end, const Cells& at_end) {
  const auto& code = image.flat.code;
  std::vector<Cells> live(end - start, Cells(image.phv_cells));
  for (bool changed = true; changed;) {
    changed = false;
    for (std::uint32_t at = end; at-- > start;) {
      const FlatInstruction& i = code[at];
      Cells now(image.phv_cells);
      const bool falls_through = i.op != FlatOp::kJump && i.op != FlatOp::kTable &&
                                 i.op != FlatOp::kEnd && i.op != FlatOp::kExit;
      if (falls_through) now.add(live[at + 1 - start]);
      if (i.op >= FlatOp::kJumpEqual && i.op <= FlatOp::kJumpHit) now.add(live[i.target - start]);
      if (i.op == FlatOp::kTable) {
        for (std::size_t t = 0; t <= image.tables[i.i].actions.size(); ++t) {
          now.add(live[image.flat.targets[i.target + t] - start]);
        }
      }
      before(image, i, at_end, now);
      if (now == live[at - start]) continue;
      live[at - start] = std::move(now);
      changed = true;
    }
  }
  return live[0];
}

std::vector<CellRun> runs(const Cells& cells, std::uint32_t count) {
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

// What is looked at outside flat code: validity, stacks, headers that leave, field lists, digests,
// the deparser's own code.
Cells always(const Image& image) {
  Cells cells(image.phv_cells);
  cells.add(image.tracked_cell);
  for (const Header& header : image.headers) {
    if (!header.metadata) cells.add(header.valid_cell);
  }
  for (const HeaderStack& stack : image.stacks) cells.add(stack.next_cell);
  for (const FieldList& list : image.field_lists) {
    for (const Field& field : list.fields) add_field(cells, field.cell, field.width);
  }
  for (const Digest& digest : image.digests) {
    for (const DigestField& f : digest.fields) add_field(cells, f.field.cell, f.field.width);
  }
  add_stack_code(image, image.deparser_code.begin, image.deparser_code.end, cells);
  const Intrinsics& m = image.intrinsics;
  for (const Field* field : {&m.egress_spec, &m.mcast_grp, &m.egress_rid, &m.instance_type}) {
    add_field(cells, field->cell, field->width);
  }
  for (std::uint32_t h : image.deparser_order) {
    const HeaderPlan& plan = image.header_plans[h];
    cells.add(plan.origin_cell);
    cells.add(plan.dirty_cell);
    if (plan.plain) {
      for (const FieldPlan& field : plan.fields) cells.add(field.cell);
    } else {
      cells.add(image.headers[h].valid_cell, image.headers[h].cells);
    }
  }
  return cells;
}

}  // namespace

void find_live_cells(Image& image) {
  const FlatCode& flat = image.flat;
  const auto size = static_cast<std::uint32_t>(flat.code.size());
  if (!flat.present() || size * std::size_t{image.phv_cells / 64 + 1} > kMostWords) {
    image.initial_runs = image.copied_runs = {{0, image.phv_cells}};
    return;
  }
  const Cells leaves = live_at(image, flat.update_checksums, size, always(image));
  Cells queued = live_at(image, flat.egress, flat.update_checksums, leaves);
  queued.add(always(image));
  Cells fresh = live_at(image, flat.ingress, flat.egress, queued);
  fresh.add(always(image));
  fresh = live_at(image, flat.verify_checksums, flat.ingress, fresh);
  // The parser's own code and keys.
  for (const ParserState& state : image.parser_states) {
    for (std::uint32_t at = state.ops.begin; at < state.ops.end; ++at) {
      if (image.code[at].op != Op::kExtract) {
        add_stack_code(image, at, at + 1, fresh);
      }
    }
    for (const ParserKey& key : state.key) {
      add_stack_code(image, key.code.begin, key.code.end, fresh);
    }
  }
  // Above shared_cells nothing outlives a statement.
  image.initial_runs = runs(fresh, image.shared_cells);
  image.copied_runs = runs(queued, image.shared_cells);
}

}  // namespace tiercast::engine
