#include "dataplane/engine/flat/flat_effects.h"

#include <algorithm>

#include "dataplane/engine/flat/flat_blocks.h"

namespace tiercast::engine {

namespace {

bool between(FlatOp op, FlatOp first, FlatOp last) { return op >= first && op <= last; }

// Whether `op` takes an immediate. Operations come in pairs (cell, immediate); `first` starts the
// run of pairs.
bool immediate(FlatOp op, FlatOp first) {
  return (static_cast<unsigned>(op) - static_cast<unsigned>(first)) % 2 == 1;
}

void add_calculation(const Image& image, std::uint32_t index, CellSet& cells) {
  for (const CalculationInput& input : image.calculations[index].inputs) {
    if (input.valid_cell != kNone) cells.add(input.valid_cell);
    if (input.kind == CalculationInput::Kind::kField) add_field(cells, input.cell, input.width);
    if (input.kind == CalculationInput::Kind::kVarbit) {
      cells.add(input.cell, 1 + cells_for(input.width));
    }
  }
}

// Operations of stack code that touch only the cells that they name.
bool names_its_cells(Op op) {
  return (op >= Op::kAdd && op <= Op::kSaturateUnsigned) ||
         (op >= Op::kCloneIngress && op <= Op::kTruncate) || op == Op::kField ||
         op == Op::kSignedField || op == Op::kCopyCell || op == Op::kHash ||
         op == Op::kCalculation || op == Op::kOnesSum || op == Op::kConstant ||
         op == Op::kWideConstant || op == Op::kArgument || op == Op::kRegisterRead ||
         op == Op::kRegisterWrite || op == Op::kRandom || op == Op::kWide || op == Op::kStore ||
         op == Op::kSetCell || op == Op::kCopyArgument || op == Op::kJump ||
         op == Op::kJumpIfZero || op == Op::kCount || op == Op::kExit || op == Op::kLookahead ||
         op == Op::kAdvance || op == Op::kVerify || op == Op::kValid || op == Op::kMeter;
}

// The same, and these name headers by number.
bool names_its_headers(Op op) {
  return op == Op::kHeader || op == Op::kAddHeader || op == Op::kRemoveHeader;
}

}  // namespace

void add_field(CellSet& cells, std::uint32_t cell, std::uint32_t width) {
  cells.add(cell, cells_for(width));
}

Operands operands(FlatOp op) {
  if (op == FlatOp::kSet || op == FlatOp::kArgument || op == FlatOp::kLookahead ||
      op == FlatOp::kCallCondition) {
    return {.d = true};
  }
  if (op == FlatOp::kMove || op == FlatOp::kNot || op == FlatOp::kMinimumI ||
      op == FlatOp::kRegisterRead) {
    return {.d = true, .x = true};
  }
  if (op == FlatOp::kSubtractToZero) return {.d = true, .x = true, .y = true};
  if (between(op, FlatOp::kAdd, FlatOp::kShiftRightI)) {
    return {.d = true, .x = true, .y = !immediate(op, FlatOp::kAdd)};
  }
  if (between(op, FlatOp::kEqual, FlatOp::kLessEqualI)) {
    return {.d = true, .x = true, .y = !immediate(op, FlatOp::kEqual)};
  }
  if (between(op, FlatOp::kJumpEqual, FlatOp::kJumpLessEqualI)) {
    return {.x = true, .y = !immediate(op, FlatOp::kJumpEqual)};
  }
  if (op == FlatOp::kRegisterWrite) return {.x = true, .y = true};
  if (op == FlatOp::kCount) return {.x = true};
  return {};
}

bool is_conditional_jump(FlatOp op) {
  return between(op, FlatOp::kJumpEqual, FlatOp::kJumpLessEqualI) || op == FlatOp::kJumpHit;
}

bool is_branch(FlatOp op) { return op == FlatOp::kTable || op == FlatOp::kRunState; }

bool ends(FlatOp op) { return op == FlatOp::kEnd || op == FlatOp::kExit || op == FlatOp::kReject; }

bool is_pure(FlatOp op) {
  return operands(op).d && op != FlatOp::kLookahead && op != FlatOp::kCallCondition;
}

bool may_end(FlatOp op) {
  return op == FlatOp::kCall || op == FlatOp::kCallCondition || op == FlatOp::kExtract ||
         op == FlatOp::kLookahead || op == FlatOp::kNextState || op == FlatOp::kRunState;
}

void add_stack_code(const Image& image, std::uint32_t begin, std::uint32_t end, CellSet& cells) {
  for (std::uint32_t at = begin; at < end; ++at) {
    const Instruction& i = image.code[at];
    if (i.op == Op::kField || i.op == Op::kSignedField) {
      add_field(cells, i.a, i.width);
    } else if (i.op == Op::kCopyCell) {
      cells.add(i.b);
    } else if (i.op == Op::kHash || i.op == Op::kCalculation || i.op == Op::kOnesSum) {
      add_calculation(image, i.a, cells);
    } else if (i.op == Op::kHeader && i.a < image.headers.size()) {
      cells.add(image.headers[i.a].valid_cell);
    } else if (i.op == Op::kExtractStack) {
      cells.add(image.stacks[i.a].next_cell);
    } else if (!names_its_cells(i.op) && !names_its_headers(i.op) && i.op != Op::kExtract) {
      return cells.add_all();
    }
  }
}

void add_reads(const Image& image, const FlatInstruction& i, CellSet& cells, Reads reads) {
  const Operands o = operands(i.op);
  if (o.x) cells.add(i.x);
  if (o.y) cells.add(i.y);
  switch (i.op) {
    case FlatOp::kTable: {
      const Table& table = image.tables[i.i];
      for (const Key& key : table.keys) add_field(cells, key.cell, key.width);
      if (table.profile != kNone && image.profiles[table.profile].hash != kNone) {
        add_calculation(image, image.profiles[table.profile].hash, cells);
      }
      return;
    }
    case FlatOp::kCall:
    case FlatOp::kCallCondition:
      return add_stack_code(image, static_cast<std::uint32_t>(i.i), i.target, cells);
    case FlatOp::kVerifyChecksum:
    case FlatOp::kUpdateChecksum: {
      const Checksum& checksum = image.checksums[i.i];
      add_field(cells, checksum.cell, checksum.width);
      const bool on_bytes = i.op == FlatOp::kVerifyChecksum && checksum.whole_header != kNone;
      if (on_bytes && reads == Reads::kReceived) return;
      if (on_bytes) {
        cells.add(image.header_plans[checksum.whole_header].valid_cell);
        cells.add(image.header_plans[checksum.whole_header].origin_cell);
      }
      return add_calculation(image, checksum.calculation, cells);
    }
    case FlatOp::kCopy: return cells.add(i.x, static_cast<std::uint32_t>(i.i));
    case FlatOp::kRunState: {
      const ParserState& state = image.parser_states[i.i];
      for (std::uint32_t at = state.ops.begin; at < state.ops.end; ++at) {
        if (image.code[at].op != Op::kExtract) add_stack_code(image, at, at + 1, cells);
      }
      for (const ParserKey& key : state.key) {
        add_stack_code(image, key.code.begin, key.code.end, cells);
      }
      return;
    }
    default: return;
  }
}

Writes writes(const Image& image, const FlatInstruction& i) {
  Writes w;
  const auto field = [](std::vector<std::uint32_t>& to, std::uint32_t cell, std::uint32_t width) {
    for (std::uint32_t c = 0; c < std::max(1u, cells_for(width)); ++c) to.push_back(cell + c);
  };
  switch (i.op) {
    case FlatOp::kTable: {
      const Table& table = image.tables[i.i];
      if (table.direct_meter != kNone) {
        field(w.perhaps, table.meter_target.cell, table.meter_target.width);
      }
      break;
    }
    case FlatOp::kMarkToDrop: w.certain = {image.verdict.port, image.verdict.group}; break;
    case FlatOp::kVerifyChecksum: w.perhaps = {image.checksum_error_cell}; break;
    case FlatOp::kUpdateChecksum:
      field(w.certain, image.checksums[i.i].cell, image.checksums[i.i].width);
      break;
    case FlatOp::kClear:
    case FlatOp::kCopy:
      for (std::uint32_t c = 0; c < i.i; ++c) w.certain.push_back(i.d + c);
      break;
    case FlatOp::kExtract: {
      const HeaderPlan& plan = image.header_plans[i.i];
      w.certain = {plan.valid_cell, plan.origin_cell, plan.dirty_cell};
      for (const FieldPlan& f : plan.read) w.certain.push_back(f.cell);
      break;
    }
    case FlatOp::kCall:
    case FlatOp::kCallCondition:
      for (std::uint32_t at = static_cast<std::uint32_t>(i.i); at < i.target; ++at) {
        const Instruction& s = image.code[at];
        if (s.op == Op::kStore || s.op == Op::kCopyCell || s.op == Op::kSetCell ||
            s.op == Op::kCopyArgument) {
          field(w.perhaps, s.a, s.width);
        } else if (!names_its_cells(s.op)) {
          w.any = true;
        }
      }
      break;
    case FlatOp::kRunState: w.any = true; break;
    default: break;
  }
  return w;
}

CellSet written_from(const Image& image, std::uint32_t start) {
  CellSet written(image.phv_cells);
  const FlatGraph graph = to_blocks(image, image.flat, start);
  const auto note = [&](const FlatInstruction& i) {
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

CellSet cells_used_outside(const Image& image, Reads reads) {
  CellSet cells = cells_used_between(image);
  for (std::uint32_t h : image.deparser_order) {
    const HeaderPlan& plan = image.header_plans[h];
    if (plan.plain) {
      for (const FieldPlan& f : reads == Reads::kAll ? plan.fields : plan.write) cells.add(f.cell);
    } else {
      cells.add(image.headers[h].valid_cell, image.headers[h].cells);
    }
  }
  return cells;
}

CellSet cells_used_between(const Image& image) {
  CellSet cells(image.phv_cells);
  cells.add(image.tracked_cell);
  for (const HeaderStack& stack : image.stacks) {
    cells.add(stack.next_cell);
    if (stack.of_unions) continue;
    for (std::uint32_t h : stack.headers) cells.add(image.headers[h].valid_cell);
  }
  for (const HeaderUnion& u : image.unions) {
    for (std::uint32_t h : u.headers) cells.add(image.headers[h].valid_cell);
  }
  for (const FieldList& list : image.field_lists) {
    for (const Field& f : list.fields) add_field(cells, f.cell, f.width);
  }
  for (const Digest& digest : image.digests) {
    for (const DigestField& f : digest.fields) {
      if (f.constant.empty()) add_field(cells, f.field.cell, f.field.width);
    }
  }
  add_stack_code(image, image.deparser_code.begin, image.deparser_code.end, cells);
  for (const Field& f : image.read_behind) add_field(cells, f.cell, f.width);
  for (std::uint32_t h : image.deparser_order) {
    const HeaderPlan& plan = image.header_plans[h];
    cells.add(plan.valid_cell);
    if (plan.plain) {
      cells.add(plan.origin_cell);
      cells.add(plan.dirty_cell);
    }
  }
  return cells;
}

}  // namespace tiercast::engine
