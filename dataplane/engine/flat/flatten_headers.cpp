// Finds which fields the program reads and writes, and from that how headers are read and written
// back.
#include <algorithm>

#include "dataplane/engine/flat/flatten.h"

namespace tiercast::engine {

namespace {

// What the program does with each cell and header.
struct Uses {
  explicit Uses(const Image& image)
      : read(image.phv_cells), written(image.phv_cells), whole(image.headers.size()) {}
  void mark(std::vector<bool>& cells, std::uint32_t first, std::uint32_t width) {
    const std::size_t end = std::min<std::size_t>(first + cells_for(width), cells.size());
    for (std::size_t cell = first; cell < end; ++cell) cells[cell] = true;
  }
  void all() {
    read.assign(read.size(), true);
    written.assign(written.size(), true);
    whole.assign(whole.size(), true);
  }
  std::vector<bool> read, written;  // by cell
  std::vector<bool> whole;          // headers that are copied, compared or indexed as a whole
};

// Whether an assignment starts at `at`: two named headers, then kAssignHeader.
bool is_assignment(const Image& image, std::size_t at) {
  return at + 2 < image.code.size() && image.code[at].op == Op::kHeader &&
         image.code[at + 1].op == Op::kHeader && image.code[at + 2].op == Op::kAssignHeader;
}

// Notes the cells and headers that an operation uses. False if it is not known which.
bool note(const Image& image, std::size_t at, Uses& uses) {
  const Instruction& i = image.code[at];
  switch (i.op) {
    case Op::kField:
    case Op::kSignedField: uses.mark(uses.read, i.a, i.width); return true;
    case Op::kStore:
    case Op::kSetCell:
    case Op::kCopyArgument:
      uses.mark(uses.written, i.a, std::max<unsigned>(i.width, 1));
      return true;
    case Op::kCopyCell:
      uses.mark(uses.read, i.b, 1);
      uses.mark(uses.written, i.a, 1);
      return true;
    case Op::kHeader: {
      if (i.a >= uses.whole.size()) return true;  // the number of a union
      if (is_assignment(image, at) || (at > 0 && is_assignment(image, at - 1))) return true;
      const bool validity =
          at + 1 < image.code.size() &&
          (image.code[at + 1].op == Op::kValid || image.code[at + 1].op == Op::kAddHeader ||
           image.code[at + 1].op == Op::kRemoveHeader);
      if (!validity) uses.whole[i.a] = true;
      return true;
    }
    // These use members of stacks and unions, or varbit fields. Headers with those are not plain.
    case Op::kLastIndex:
    case Op::kStackSize:
    case Op::kVarbitEqual:
    case Op::kCopyVarbit:
    case Op::kElement:
    case Op::kLastElement:
    case Op::kUnionMember:
    case Op::kUnionValid:
    case Op::kAssignStack:
    case Op::kPush:
    case Op::kPop:
    case Op::kExtractVarbit:
    case Op::kExtractStack:
    case Op::kExtractStackVarbit:
    case Op::kExtractUnionStack:
    case Op::kExtractUnionStackVarbit:
    // These use a header that an earlier kHeader names.
    case Op::kFieldOf:
    case Op::kSignedFieldOf:
    case Op::kStoreFieldOf:
    case Op::kValid:
    case Op::kHeadersEqual:
    case Op::kAddHeader:
    case Op::kRemoveHeader:
    case Op::kAssignHeader:
    // These use fields only through the stack, a field list or a calculation.
    case Op::kConstant:
    case Op::kWideConstant:
    case Op::kArgument:
    case Op::kLookahead:
    case Op::kRegisterRead:
    case Op::kRandom:
    case Op::kHash:
    case Op::kCalculation:
    case Op::kOnesSum:
    case Op::kAdd:
    case Op::kSubtract:
    case Op::kMultiply:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kShiftLeft:
    case Op::kShiftRight:
    case Op::kEqual:
    case Op::kNotEqual:
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual:
    case Op::kComplement:
    case Op::kNegate:
    case Op::kNot:
    case Op::kToBool:
    case Op::kSelect:
    case Op::kTwoCompMod:
    case Op::kSaturate:
    case Op::kSaturateUnsigned:
    case Op::kDivide:
    case Op::kRemainder:
    case Op::kRegisterWrite:
    case Op::kCount:
    case Op::kMeter:
    case Op::kJump:
    case Op::kJumpIfZero:
    case Op::kLoop:
    case Op::kLoopIfZero:
    case Op::kWide:
    case Op::kExit:
    case Op::kExtract:
    case Op::kAdvance:
    case Op::kVerify:
    case Op::kMarkToDrop:
    case Op::kCloneIngress:
    case Op::kCloneEgress:
    case Op::kResubmit:
    case Op::kRecirculate:
    case Op::kTruncate:
    case Op::kDigest:
    case Op::kLog:
    case Op::kAssert: return true;
    default: return false;
  }
}

Uses find_uses(const Image& image) {
  Uses uses(image);
  for (std::size_t at = 0; at < image.code.size(); ++at) {
    if (!note(image, at, uses)) uses.all();
  }
  for (const Table& table : image.tables) {
    for (const Key& key : table.keys) uses.mark(uses.read, key.cell, key.width);
    if (table.direct_meter != kNone) {
      uses.mark(uses.written, table.meter_target.cell, table.meter_target.width);
    }
  }
  for (const Calculation& calculation : image.calculations) {
    for (const CalculationInput& input : calculation.inputs) {
      if (input.kind == CalculationInput::Kind::kField) {
        uses.mark(uses.read, input.cell, input.width);
      }
    }
  }
  for (const Checksum& checksum : image.checksums) {
    uses.mark(uses.read, checksum.cell, checksum.width);
    if (checksum.update) uses.mark(uses.written, checksum.cell, checksum.width);
  }
  for (const Digest& digest : image.digests) {
    for (const DigestField& f : digest.fields) {
      if (f.constant.empty()) uses.mark(uses.read, f.field.cell, f.field.width);
    }
  }
  for (const FieldList& list : image.field_lists) {
    for (const Field& field : list.fields) {
      uses.mark(uses.read, field.cell, field.width);
      uses.mark(uses.written, field.cell, field.width);
    }
  }
  return uses;
}

// False if the field is not in cells that one load each can fill.
bool plan_field(const Field& field, std::uint32_t first_bit, std::vector<FieldPlan>& out) {
  const std::uint32_t cells = cells_for(field.width);
  for (std::uint32_t c = 0; c < cells; ++c) {
    const std::uint32_t width = std::min(kCellBits, field.width - c * kCellBits);
    const std::uint32_t bit = first_bit + field.width - c * kCellBits - width;
    if (bit % 8 + width > 64 || bit / 8 > 0xffff) return false;
    FieldPlan plan;
    plan.cell = field.cell + c;
    plan.byte = static_cast<std::uint16_t>(bit / 8);
    plan.shift = static_cast<std::uint8_t>(64 - bit % 8 - width);
    plan.mask = low_mask(width);
    const bool power = width == 8 || width == 16 || width == 32 || width == 48 || width == 64;
    if (bit % 8 == 0 && power) plan.whole_bytes = static_cast<std::uint8_t>(width / 8);
    out.push_back(plan);
  }
  return true;
}

// False if the header's own layout prevents it from being plain.
bool plan_fields(const Image& image, std::uint32_t index, HeaderPlan& plan) {
  const Header& header = image.headers[index];
  plan.valid_cell = header.valid_cell;
  plan.bytes = header.fixed_bits / 8;
  if (header.metadata || header.varbit != kNone || header.header_union != kNone) return false;
  for (const HeaderStack& stack : image.stacks) {
    if (!stack.of_unions && std::count(stack.headers.begin(), stack.headers.end(), index) > 0) {
      return false;
    }
  }
  std::uint32_t bit = 0;
  for (const Field& field : header.fields) {
    if (!plan_field(field, bit, plan.fields)) return false;
    bit += field.width;
  }
  return true;
}

void plan_use(const Uses& uses, HeaderPlan& plan) {
  for (const FieldPlan& field : plan.fields) {
    if (uses.read[field.cell] || uses.written[field.cell]) plan.read.push_back(field);
    if (uses.written[field.cell]) plan.write.push_back(field);
  }
  plan.plain = true;
}

// Headers that are assigned to each other must all be plain or none, and must use the same fields.
// Returns whether something changed.
bool join_assigned(const Image& image, Uses& uses) {
  bool changed = false;
  const auto join = [&](auto&& a, auto&& b) {
    if (a == b) return;
    a = b = true;
    changed = true;
  };
  for (std::size_t at = 0; at < image.code.size(); ++at) {
    if (!is_assignment(image, at)) continue;
    const std::uint32_t t = image.code[at].a, f = image.code[at + 1].a;
    if (t >= image.headers.size() || f >= image.headers.size()) continue;
    const Header& to = image.headers[t];
    const Header& from = image.headers[f];
    join(uses.whole[t], uses.whole[f]);
    for (std::uint32_t c = 0; c < std::min(to.cells, from.cells); ++c) {
      join(uses.read[to.valid_cell + c], uses.read[from.valid_cell + c]);
      join(uses.written[to.valid_cell + c], uses.written[from.valid_cell + c]);
    }
  }
  return changed;
}

// Parsers and direct meters write fields outside flat code, which could have marked the header.
void plan_outside_writes(Image& image) {
  Uses uses(image);
  for (const ParserState& state : image.parser_states) {
    for (std::size_t at = state.ops.begin; at < state.ops.end; ++at) {
      if (!note(image, at, uses)) uses.all();
    }
  }
  for (const Table& table : image.tables) {
    if (table.direct_meter != kNone) {
      uses.mark(uses.written, table.meter_target.cell, table.meter_target.width);
    }
  }
  for (const HeaderPlan& plan : image.header_plans) {
    const bool assigned =
        plan.plain && std::any_of(plan.write.begin(), plan.write.end(),
                                  [&](const FieldPlan& field) { return uses.written[field.cell]; });
    if (assigned) image.always_dirty.push_back(plan.dirty_cell);
  }
}

void plan_checksum(const Calculation& calculation, ChecksumPlan& plan) {
  if (calculation.algorithm != Algorithm::kCsum16 || calculation.with_payload) return;
  for (const CalculationInput& input : calculation.inputs) {
    // A term has at most 32 + 15 bits, so a sum of 2^16 terms fits into 64.
    if (input.kind != CalculationInput::Kind::kField || input.width > 32) return;
  }
  if (calculation.inputs.size() > 1u << 16) return;
  std::uint32_t end = 0;
  for (const CalculationInput& input : calculation.inputs) {
    end += input.width;
    plan.terms.push_back({input.cell, (16 - end % 16) % 16});
    if (input.valid_cell != kNone && std::find(plan.valid_cells.begin(), plan.valid_cells.end(),
                                               input.valid_cell) == plan.valid_cells.end()) {
      plan.valid_cells.push_back(input.valid_cell);
    }
  }
  plan.plain = true;
}

// Finds whether a checksum that is verified after the parser covers exactly one plain header, which
// the parser does not change: its inputs are all fields except the checksum itself.
void plan_verification(const Image& image, Checksum& checksum) {
  if (!checksum.verify || checksum.width != 16) return;
  if (!image.checksum_plans[checksum.calculation].plain) return;
  const std::vector<CalculationInput>& inputs = image.calculations[checksum.calculation].inputs;
  for (std::uint32_t h = 0; h < image.headers.size(); ++h) {
    const Header& header = image.headers[h];
    const HeaderPlan& plan = image.header_plans[h];
    const auto is_in = [](const std::vector<std::uint32_t>& list, std::uint32_t what) {
      return std::count(list.begin(), list.end(), what) > 0;
    };
    const bool changed =
        is_in(image.always_dirty, plan.dirty_cell) || is_in(image.copied_headers, h);
    if (!plan.plain || changed || header.fixed_bits % 16 != 0) continue;
    std::uint32_t bit = 0, checksum_bit = kNone;
    std::size_t next = 0;
    bool same = header.fields.size() == inputs.size() + 1;
    for (const Field& field : header.fields) {
      if (!same) break;
      if (field.cell == checksum.cell) {
        checksum_bit = bit;
      } else {
        same = next < inputs.size() && inputs[next].cell == field.cell &&
               inputs[next].width == field.width &&
               (inputs[next].valid_cell == kNone || inputs[next].valid_cell == header.valid_cell);
        ++next;
      }
      bit += field.width;
    }
    if (!same || checksum_bit == kNone || checksum_bit % 16 != 0) continue;
    checksum.whole_header = h;
    checksum.whole_header_shift = checksum_bit % 32 == 0 ? 16 : 0;
    return;
  }
}

}  // namespace

void plan_headers(Image& image) {
  Uses uses = find_uses(image);
  image.header_plans.resize(image.headers.size());
  for (std::uint32_t h = 0; h < image.headers.size(); ++h) {
    if (!plan_fields(image, h, image.header_plans[h])) uses.whole[h] = true;
  }
  while (join_assigned(image, uses)) {
  }
  for (std::uint32_t h = 0; h < image.headers.size(); ++h) {
    if (uses.whole[h]) continue;
    plan_use(uses, image.header_plans[h]);
    image.header_plans[h].origin_cell = image.phv_cells++;
    image.header_plans[h].dirty_cell = image.phv_cells++;
  }
  for (std::size_t at = 0; at < image.code.size(); ++at) {
    if (!is_assignment(image, at) || image.code[at].a >= image.headers.size()) continue;
    const std::uint32_t to = image.code[at].a;
    if (image.header_plans[to].plain) image.copied_headers.push_back(to);
  }
  image.tracked_cell = image.phv_cells++;
  plan_outside_writes(image);
  for (std::uint32_t h : image.deparser_order) {
    const Header& header = image.headers[h];
    const HeaderPlan& plan = image.header_plans[h];
    image.deparse_steps.push_back({h, plan.valid_cell, plan.plain ? plan.origin_cell : 0,
                                   plan.dirty_cell, plan.bytes,
                                   header.varbit == kNone ? 0 : header.fields[header.varbit].cell});
  }
  image.checksum_plans.resize(image.calculations.size());
  for (std::size_t c = 0; c < image.calculations.size(); ++c) {
    plan_checksum(image.calculations[c], image.checksum_plans[c]);
  }
  for (Checksum& checksum : image.checksums) plan_verification(image, checksum);
}

}  // namespace tiercast::engine
