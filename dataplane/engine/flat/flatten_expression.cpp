#include "dataplane/engine/flat/flatten_expression.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

namespace tiercast::engine {

namespace {

// The six comparisons in the order of FlatOp. The two of each pair (0 and 1, ...) are opposites.
enum Comparison : unsigned { kEq, kNe, kLt, kGe, kGt, kLe };

FlatOp flat(FlatOp first, unsigned index, bool immediate) {
  return static_cast<FlatOp>(static_cast<unsigned>(first) + 2 * index + (immediate ? 1 : 0));
}

std::optional<Comparison> comparison(Op op) {
  switch (op) {
    case Op::kEqual: return kEq;
    case Op::kNotEqual: return kNe;
    case Op::kLess: return kLt;
    case Op::kLessEqual: return kLe;
    case Op::kGreater: return kGt;
    case Op::kGreaterEqual: return kGe;
    default: return std::nullopt;
  }
}

// The comparison with its operands swapped: a op b is b turned(op) a.
Comparison turned(Comparison c) {
  switch (c) {
    case kLt: return kGt;
    case kGt: return kLt;
    case kLe: return kGe;
    case kGe: return kLe;
    default: return c;
  }
}

std::optional<unsigned> arithmetic(Op op) {
  switch (op) {
    case Op::kAdd: return 0;
    case Op::kSubtract: return 1;
    case Op::kMultiply: return 2;
    case Op::kAnd: return 3;
    case Op::kOr: return 4;
    case Op::kXor: return 5;
    case Op::kShiftLeft: return 6;
    case Op::kShiftRight: return 7;
    default: return std::nullopt;
  }
}

// The operators on 64-bit numbers, and how many operands each takes.
constexpr struct {
  Op op;
  unsigned operands;
} kOperators[] = {
    {Op::kAdd, 2},        {Op::kSubtract, 2},     {Op::kMultiply, 2},
    {Op::kAnd, 2},        {Op::kOr, 2},           {Op::kXor, 2},
    {Op::kShiftLeft, 2},  {Op::kShiftRight, 2},   {Op::kEqual, 2},
    {Op::kNotEqual, 2},   {Op::kLess, 2},         {Op::kLessEqual, 2},
    {Op::kGreater, 2},    {Op::kGreaterEqual, 2}, {Op::kSaturateUnsigned, 2},
    {Op::kComplement, 1}, {Op::kNegate, 1},       {Op::kNot, 1},
    {Op::kToBool, 1},     {Op::kSelect, 3},
};

// 0 if it is not one of these operators.
unsigned operands_of(Op op) {
  const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                   [op](const auto& entry) { return entry.op == op; });
  return found == std::end(kOperators) ? 0 : found->operands;
}

constexpr unsigned kUnknownBits = std::numeric_limits<unsigned>::max();

unsigned bits_of(Cell value) { return value == 0 ? 0 : 64 - __builtin_clzll(value); }

}  // namespace

FlatWriter::FlatWriter(const Image& image)
    : image_(image), dirty_cell_(image.phv_cells), first_temporary_(image.phv_cells) {
  for (const HeaderPlan& plan : image.header_plans) {
    if (!plan.plain) continue;
    for (const FieldPlan& field : plan.fields) dirty_cell_[field.cell] = plan.dirty_cell;
  }
}

// --- Code ---

Label FlatWriter::label() {
  labels_.push_back(FlatCode::kAbsent);
  return static_cast<Label>(labels_.size() - 1);
}

void FlatWriter::bind(Label label) {
  labels_[label] = static_cast<std::uint32_t>(code_.size());
  dirty_.clear();  // other paths join here
}

void FlatWriter::emit(FlatInstruction instruction) {
  code_.push_back(instruction);
  if (instruction.op <= FlatOp::kLessEqualI || instruction.op == FlatOp::kArgument ||
      instruction.op == FlatOp::kRegisterRead) {
    note_write(instruction.d);
  } else if (instruction.op == FlatOp::kUpdateChecksum) {
    note_write(image_.checksums[instruction.i].cell);
  } else if (instruction.op == FlatOp::kExtract) {
    dirty_.clear();
  }
}

// Marks the header to which this cell's field belongs, because it must be written back.
void FlatWriter::note_write(std::uint32_t cell) {
  const std::uint32_t dirty = cell < dirty_cell_.size() ? dirty_cell_[cell] : 0;
  if (dirty == 0 || std::count(dirty_.begin(), dirty_.end(), dirty) > 0) return;
  code_.push_back({.op = FlatOp::kSet, .d = static_cast<std::uint16_t>(dirty), .i = 1});
  dirty_.push_back(dirty);
}

void FlatWriter::emit_jump(FlatInstruction instruction, Label to) {
  instruction.target = to;
  code_.push_back(instruction);
}

void FlatWriter::jump(Label to) { emit_jump({.op = FlatOp::kJump}, to); }

void FlatWriter::resolve(FlatCode& out) {
  const auto final_address = [&](Label label) {
    std::uint32_t address = labels_[label];
    // Follow a jump to a jump. This ends, because only parsers have loops, with a kNextState in
    // each.
    while (address < code_.size() && code_[address].op == FlatOp::kJump) {
      address = labels_[code_[address].target];
    }
    return address;
  };
  out.code = code_;
  for (FlatInstruction& i : out.code) {
    const bool jumps = i.op >= FlatOp::kJumpEqual && i.op <= FlatOp::kJumpHit;
    if (jumps) i.target = final_address(i.target);
  }
  out.targets.clear();
  for (Label label : targets_) out.targets.push_back(final_address(label));
}

void FlatWriter::call(std::uint32_t begin, std::uint32_t end) {
  if (begin == end) return;
  // Note the writes first, because the code may end the pipeline right after a store.
  for (std::uint32_t at = begin; at < end; ++at) {
    const Instruction& i = image_.code[at];
    if (i.op != Op::kStore && i.op != Op::kCopyCell && i.op != Op::kSetCell &&
        i.op != Op::kCopyArgument) {
      continue;
    }
    for (std::uint32_t c = 0; c < std::max(1u, cells_for(i.width)); ++c) note_write(i.a + c);
  }
  emit({.op = FlatOp::kCall, .target = end, .i = begin});
}

// --- Expressions ---

std::uint32_t FlatWriter::add(const Expression& expression) {
  expressions_.push_back(expression);
  return static_cast<std::uint32_t>(expressions_.size() - 1);
}

// False if it is not an operation on 64-bit numbers.
bool FlatWriter::push(const Instruction& i) {
  Expression e{.op = i.op, .a = i.a, .bits = i.width, .exact = true};
  switch (i.op) {
    case Op::kField:
    case Op::kArgument:
      if (i.width == 0 || i.width > kCellBits) return false;
      break;
    case Op::kConstant: {
      const Word value = image_.constants[i.a];
      e.constant = static_cast<Cell>(value);
      e.exact = value >= 0 && value <= Word{~Cell{0}};
      e.bits = bits_of(e.constant);
      break;
    }
    case Op::kHeader: break;
    case Op::kRegisterRead: {
      if (!expressions_[stack_.back()].exact) return false;
      e.bits = image_.registers[i.a].width;
      if (e.bits > kCellBits) return false;
      e.operands[0] = stack_.back();
      e.count = 1;
      stack_.pop_back();
      break;
    }
    case Op::kValid: {
      const Expression& header = expressions_[stack_.back()];
      if (header.op != Op::kHeader || header.a >= image_.headers.size()) return false;
      stack_.pop_back();
      e = {.op = Op::kField, .a = image_.headers[header.a].valid_cell, .bits = 1, .exact = true};
      break;
    }
    default: return push_operator(i.op);
  }
  stack_.push_back(add(e));
  return true;
}

bool FlatWriter::push_operator(Op op) {
  const unsigned count = operands_of(op);
  if (count == 0) return false;
  Expression e{.op = op, .count = count};
  for (std::size_t n = count; n-- > 0;) {
    e.operands[n] = stack_.back();
    stack_.pop_back();
    if (expressions_[e.operands[n]].op == Op::kHeader) return false;
  }
  const Expression& l = expressions_[e.operands[0]];
  const Expression& r = expressions_[e.operands[count > 1 ? 1 : 0]];
  const bool both = l.exact && r.exact;
  if (op == Op::kAnd && both && r.op == Op::kConstant && l.bits < kCellBits &&
      (low_mask(l.bits) & ~r.constant) == 0) {
    stack_.push_back(e.operands[0]);  // drop a mask that cuts nothing; p4c emits many
    return true;
  }
  switch (op) {
    case Op::kAdd:
      e.bits = std::max(l.bits, r.bits) + 1;
      e.exact = both && e.bits <= kCellBits;
      break;
    case Op::kMultiply:
      e.bits = l.bits + r.bits;
      e.exact = both && e.bits <= kCellBits;
      break;
    case Op::kAnd:
      // An operand that is not exact may have any bits set.
      e.exact = l.exact || r.exact;
      e.bits = std::min(l.exact ? l.bits : kUnknownBits, r.exact ? r.bits : kUnknownBits);
      break;
    case Op::kOr:
    case Op::kXor:
      e.exact = both;
      e.bits = std::max(l.bits, r.bits);
      break;
    case Op::kShiftLeft:
      if (!r.exact) return false;
      if (r.op == Op::kConstant && r.constant < kCellBits) {
        e.bits = l.bits + static_cast<unsigned>(r.constant);
        e.exact = l.exact && e.bits <= kCellBits;
      }
      break;
    case Op::kShiftRight:
      if (!both) return false;
      e.exact = true;
      e.bits = l.bits;
      break;
    case Op::kSaturateUnsigned: {
      // The sizes of a difference's operands say whether it can be negative.
      if (r.op != Op::kConstant || r.constant == 0 || r.constant > kCellBits) return false;
      const bool difference = l.op == Op::kSubtract && expressions_[l.operands[0]].exact &&
                              expressions_[l.operands[1]].exact;
      if (!l.exact && !difference) return false;
      e.bits = static_cast<unsigned>(r.constant);
      e.exact = true;
      break;
    }
    case Op::kSubtract:
    case Op::kComplement:
    case Op::kNegate: break;  // may be negative
    case Op::kSelect: {
      const Expression& third = expressions_[e.operands[2]];
      if (!l.exact) return false;
      e.exact = r.exact && third.exact;
      e.bits = std::max(r.bits, third.bits);
      break;
    }
    default:  // comparisons and truth values
      if (!both) return false;
      e.exact = true;
      e.bits = 1;
  }
  stack_.push_back(add(e));
  return true;
}

std::uint16_t FlatWriter::temporary() {
  most_temporaries_ = std::max(most_temporaries_, ++temporaries_);
  // flatten() gives up if the program needs more than 65535 cells.
  return static_cast<std::uint16_t>(first_temporary_ + temporaries_ - 1);
}

FlatWriter::Operand FlatWriter::operand(std::uint32_t expression) {
  const Expression& e = expressions_[expression];
  if (e.op == Op::kConstant) return {true, e.constant};
  return {false, in_cell(expression)};
}

std::uint16_t FlatWriter::in_cell(std::uint32_t expression) {
  const Expression& e = expressions_[expression];
  if (e.op == Op::kField) return static_cast<std::uint16_t>(e.a);
  const std::uint16_t to = temporary();
  compute(expression, to, ~Cell{0});
  return to;
}

bool FlatWriter::is_bit(std::uint32_t expression) const {
  return expressions_[expression].exact && expressions_[expression].bits <= 1;
}

unsigned FlatWriter::operations(std::uint32_t expression) const {
  const Expression& e = expressions_[expression];
  if (e.op == Op::kField || e.op == Op::kConstant || e.op == Op::kArgument) return 0;
  unsigned count = 1;
  for (unsigned n = 0; n < e.count; ++n) count += operations(e.operands[n]);
  return count;
}

void FlatWriter::compute(std::uint32_t expression, std::uint16_t to, Cell mask) {
  const Expression e = expressions_[expression];
  const auto x = [&] { return in_cell(e.operands[0]); };
  switch (e.op) {
    case Op::kField:
      return emit(
          {.op = FlatOp::kMove, .d = to, .x = static_cast<std::uint16_t>(e.a), .mask = mask});
    case Op::kConstant: return emit({.op = FlatOp::kSet, .d = to, .i = e.constant & mask});
    case Op::kArgument:
      return emit({.op = FlatOp::kArgument, .d = to, .i = e.a, .mask = mask & low_mask(e.bits)});
    case Op::kRegisterRead:
      return emit({.op = FlatOp::kRegisterRead, .d = to, .x = x(), .i = e.a, .mask = mask});
    case Op::kComplement: return emit({.op = FlatOp::kNot, .d = to, .x = x(), .mask = mask});
    case Op::kNegate: {
      const std::uint16_t zero = temporary();
      emit({.op = FlatOp::kSet, .d = zero});
      return emit({.op = FlatOp::kSubtract, .d = to, .x = zero, .y = x(), .mask = mask});
    }
    case Op::kToBool:
      if (expressions_[e.operands[0]].bits <= 1) return compute(e.operands[0], to, mask);
      return emit({.op = FlatOp::kNotEqualI, .d = to, .x = x(), .mask = mask});
    case Op::kSaturateUnsigned: {
      const Expression left = expressions_[e.operands[0]];
      std::uint16_t value = 0;
      if (left.op == Op::kSubtract) {
        const std::uint16_t a = in_cell(left.operands[0]), b = in_cell(left.operands[1]);
        value = temporary();
        emit({.op = FlatOp::kSubtractToZero, .d = value, .x = a, .y = b});
      } else {
        value = x();
      }
      return emit(
          {.op = FlatOp::kMinimumI, .d = to, .x = value, .i = low_mask(e.bits), .mask = mask});
    }
    case Op::kNot: return emit({.op = FlatOp::kEqualI, .d = to, .x = x(), .mask = mask});
    case Op::kSelect: {
      const Label otherwise = label(), end = label();
      branch(e.operands[0], false, otherwise);
      compute(e.operands[1], to, mask);
      jump(end);
      bind(otherwise);
      compute(e.operands[2], to, mask);
      return bind(end);
    }
    default: break;
  }
  if (comparison(e.op)) return compare(FlatOp::kEqual, e, to, mask, std::nullopt, true);
  if ((e.op == Op::kAnd || e.op == Op::kOr) && is_bit(e.operands[0]) && is_bit(e.operands[1]) &&
      operations(e.operands[1]) > 2) {
    // If the left operand decides alone, the right one is not evaluated.
    const Cell decided = e.op == Op::kOr ? 1 : 0;
    const Label is_decided = label(), end = label();
    branch(e.operands[0], decided != 0, is_decided);
    compute(e.operands[1], to, mask);
    jump(end);
    bind(is_decided);
    emit({.op = FlatOp::kSet, .d = to, .i = decided & mask});
    return bind(end);
  }
  if (e.op == Op::kAnd) {  // with a constant; every instruction can mask its result
    for (unsigned n : {0u, 1u}) {
      const Expression& known = expressions_[e.operands[n]];
      if (known.op == Op::kConstant) return compute(e.operands[1 - n], to, mask & known.constant);
    }
  }

  Operand l = operand(e.operands[0]), r = operand(e.operands[1]);
  const bool commutes = e.op != Op::kSubtract && e.op != Op::kShiftLeft && e.op != Op::kShiftRight;
  if (l.immediate && commutes) std::swap(l, r);
  if (l.immediate) {
    const std::uint16_t cell = temporary();
    emit({.op = FlatOp::kSet, .d = cell, .i = l.value});
    l = {false, cell};
  }
  FlatInstruction i{.op = flat(FlatOp::kAdd, *arithmetic(e.op), r.immediate),
                    .d = to,
                    .x = static_cast<std::uint16_t>(l.value),
                    .mask = mask};
  if (r.immediate) {
    i.i = r.value;
    if ((e.op == Op::kShiftLeft || e.op == Op::kShiftRight) && r.value >= kCellBits) {
      i = {.op = FlatOp::kSet, .d = to};
    }
  } else {
    i.y = static_cast<std::uint16_t>(r.value);
  }
  emit(i);
}

// Compares into cell d, or jumps to `to` if the outcome is `when`.
void FlatWriter::compare(FlatOp first, const Expression& e, std::uint16_t d, Cell mask,
                         std::optional<Label> to, bool when) {
  Comparison c = *comparison(e.op);
  Operand l = operand(e.operands[0]), r = operand(e.operands[1]);
  if (l.immediate) {
    std::swap(l, r);
    c = turned(c);
  }
  if (l.immediate) {
    const std::uint16_t cell = temporary();
    emit({.op = FlatOp::kSet, .d = cell, .i = l.value});
    l = {false, cell};
  }
  if (!when) c = static_cast<Comparison>(c ^ 1u);
  FlatInstruction i{.op = flat(first, c, r.immediate),
                    .d = d,
                    .x = static_cast<std::uint16_t>(l.value),
                    .mask = mask};
  if (r.immediate) {
    i.i = r.value;
  } else {
    i.y = static_cast<std::uint16_t>(r.value);
  }
  if (to) {
    emit_jump(i, *to);
  } else {
    emit(i);
  }
}

void FlatWriter::branch(std::uint32_t expression, bool when, Label to) {
  const Expression e = expressions_[expression];
  if (e.op == Op::kConstant) {
    if ((e.constant != 0) == when) jump(to);
    return;
  }
  if (e.op == Op::kNot) return branch(e.operands[0], !when, to);
  if (e.op == Op::kToBool) return branch(e.operands[0], when, to);
  if (comparison(e.op)) return compare(FlatOp::kJumpEqual, e, 0, ~Cell{0}, to, when);
  if ((e.op == Op::kAnd || e.op == Op::kOr) && is_bit(e.operands[0]) && is_bit(e.operands[1])) {
    // The outcome that the left operand can decide alone.
    const bool decided = e.op == Op::kOr;
    if (when == decided) {
      branch(e.operands[0], decided, to);
      return branch(e.operands[1], decided, to);
    }
    const Label on = label();
    branch(e.operands[0], decided, on);
    branch(e.operands[1], when, to);
    return bind(on);
  }
  emit_jump({.op = when ? FlatOp::kJumpNotEqualI : FlatOp::kJumpEqualI, .x = in_cell(expression)},
            to);
}

// Copies cell by cell, so that cells that are never read need not be copied. Has the same effect as
// Headers::assign().
void FlatWriter::assign_header(std::uint32_t to, std::uint32_t from) {
  const Header& target = image_.headers[to];
  const Header& source = image_.headers[from];
  const auto move = [&](std::uint32_t t, std::uint32_t f) {
    code_.push_back({.op = FlatOp::kMove,
                     .d = static_cast<std::uint16_t>(t),
                     .x = static_cast<std::uint16_t>(f)});
  };
  const Label end = label();
  move(target.valid_cell, source.valid_cell);
  emit_jump({.op = FlatOp::kJumpEqualI, .x = static_cast<std::uint16_t>(source.valid_cell)}, end);
  for (std::uint32_t c = 1; c < source.cells; ++c)
    move(target.valid_cell + c, source.valid_cell + c);
  move(image_.header_plans[to].origin_cell, image_.header_plans[from].origin_cell);
  move(image_.header_plans[to].dirty_cell, image_.header_plans[from].dirty_cell);
  bind(end);
}

// --- Statements ---

// Writes a statement's last operation, whose operands are on stack_. False if it must be called
// instead.
bool FlatWriter::simple_statement(const Instruction& i, std::optional<std::uint32_t>& jump_to) {
  jump_to.reset();
  const auto exact = [&](std::size_t from_top) {
    const Expression& e = expressions_[stack_[stack_.size() - from_top]];
    return e.exact && e.op != Op::kHeader;
  };
  const auto top = [&](std::size_t n) { return stack_[stack_.size() - n]; };
  const auto cell = static_cast<std::uint16_t>(i.a);
  switch (i.op) {
    case Op::kStore:
      if (i.width == 0 || i.width > kCellBits) return false;
      compute(top(1), cell, low_mask(i.width));
      return true;
    case Op::kCopyCell:
      emit({.op = FlatOp::kMove,
            .d = cell,
            .x = static_cast<std::uint16_t>(i.b),
            .mask = low_mask(i.width)});
      return true;
    case Op::kSetCell:
      emit({.op = FlatOp::kSet, .d = cell, .i = static_cast<Cell>(image_.constants[i.b])});
      return true;
    case Op::kCopyArgument:
      emit({.op = FlatOp::kArgument, .d = cell, .i = i.b, .mask = low_mask(i.width)});
      return true;
    case Op::kAddHeader:
    case Op::kRemoveHeader: {
      const Expression& e = expressions_[top(1)];
      if (e.op != Op::kHeader || e.a >= image_.headers.size()) return false;
      const Header& header = image_.headers[e.a];
      if (header.metadata || header.header_union != kNone) return false;
      emit({.op = FlatOp::kSet,
            .d = static_cast<std::uint16_t>(header.valid_cell),
            .i = i.op == Op::kAddHeader ? 1u : 0u});
      return true;
    }
    case Op::kRegisterWrite: {
      const RegisterArray& array = image_.registers[i.a];
      if (array.width > kCellBits || !exact(2)) return false;
      const std::uint16_t index = in_cell(top(2));
      emit({.op = FlatOp::kRegisterWrite,
            .x = index,
            .y = in_cell(top(1)),
            .i = i.a,
            .mask = low_mask(array.width)});
      return true;
    }
    case Op::kCount:
      if (!exact(1)) return false;
      emit({.op = FlatOp::kCount, .x = in_cell(top(1)), .i = i.a});
      return true;
    case Op::kAssignHeader: {
      const Expression& to = expressions_[top(2)];
      const Expression& from = expressions_[top(1)];
      if (to.op != Op::kHeader || from.op != Op::kHeader || to.a >= image_.headers.size() ||
          from.a >= image_.headers.size() || !image_.header_plans[to.a].plain) {
        return false;
      }
      assign_header(to.a, from.a);
      return true;
    }
    case Op::kExtract:
      if (!image_.header_plans[i.a].plain) return false;
      emit({.op = FlatOp::kExtract, .i = i.a});
      return true;
    case Op::kMarkToDrop: emit({.op = FlatOp::kMarkToDrop}); return true;
    case Op::kExit: emit({.op = FlatOp::kExit}); return true;
    case Op::kJump: jump_to = i.a; return true;
    case Op::kJumpIfZero:
      if (!exact(1)) return false;
      jump_to = i.a;
      return true;
    default: return false;
  }
}

// False if the range cannot be cut into statements and must be called as a whole.
bool FlatWriter::translate(CodeRange range, std::optional<Label> if_false) {
  std::map<std::uint32_t, Label> jumps;  // image address -> label
  for (std::uint32_t begin = range.begin; begin < range.end;) {
    if (const auto found = jumps.find(begin); found != jumps.end()) bind(found->second);
    expressions_.clear();
    stack_.clear();
    temporaries_ = 0;
    bool simple = true, done = false;
    int depth = 0;
    std::uint32_t at = begin;
    std::optional<std::uint32_t> jump_to;
    const std::size_t emitted = code_.size();
    while (at < range.end && !done) {
      const Instruction& i = image_.code[at++];
      depth += stack_effect(i);
      if (i.op == Op::kWide) {
        simple = false;
        at += i.a;
        depth += static_cast<int>(i.b);
      }
      done = depth == 0;
      if (!simple) continue;
      if (done) {
        simple = simple_statement(i, jump_to);
        if (jump_to) {
          auto [label_at, is_new] = jumps.try_emplace(*jump_to, 0);
          if (is_new) label_at->second = label();
          if (i.op == Op::kJump) {
            jump(label_at->second);
          } else {
            branch(stack_.back(), false, label_at->second);
          }
        }
      } else {
        simple = push(i);
      }
    }
    if (!done) {  // the value of a condition is left on the stack
      if (!if_false || !simple || !expressions_[stack_.back()].exact) return false;
      branch(stack_.back(), false, *if_false);
    } else if (!simple) {
      const Op last = image_.code[at - 1].op;
      const bool is_jump = last == Op::kJump || last == Op::kJumpIfZero || last == Op::kLoop ||
                           last == Op::kLoopIfZero;
      if (is_jump) return false;
      code_.resize(emitted);
      dirty_.clear();
      call(begin, at);
    }
    begin = at;
  }
  if (const auto found = jumps.find(range.end); found != jumps.end()) bind(found->second);
  return true;
}

void FlatWriter::statements(CodeRange range) {
  const std::size_t emitted = code_.size();
  if (translate(range, std::nullopt)) return;
  code_.resize(emitted);
  dirty_.clear();
  call(range.begin, range.end);
}

void FlatWriter::condition(CodeRange range, Label if_false) {
  const std::size_t emitted = code_.size();
  if (translate(range, if_false)) return;
  code_.resize(emitted);
  dirty_.clear();
  temporaries_ = 0;
  const std::uint16_t outcome = temporary();
  emit({.op = FlatOp::kCallCondition, .d = outcome, .target = range.end, .i = range.begin});
  emit_jump({.op = FlatOp::kJumpEqualI, .x = outcome}, if_false);
}

}  // namespace tiercast::engine
