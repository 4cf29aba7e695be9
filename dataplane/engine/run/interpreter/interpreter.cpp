#include "dataplane/engine/run/interpreter/interpreter.h"

#include <algorithm>
#include <type_traits>

#include "dataplane/engine/image/limits.h"
#include "dataplane/engine/packet/bits.h"
#include "dataplane/engine/packet/random.h"

namespace tiercast::engine {

namespace {

template <class Value>
Value load(const Cell* cells, unsigned width) {
  if constexpr (std::is_same_v<Value, Word>) {
    return *cells;
  } else {
    return Wide::from_cells({cells, cells_for(width)});
  }
}

template <class Value>
void store(Cell* cells, unsigned width, const Value& value) {
  if constexpr (std::is_same_v<Value, Word>) {
    *cells = static_cast<Cell>(value) & low_mask(width);
  } else {
    const unsigned n = cells_for(width);
    for (unsigned i = 0; i < n; ++i) cells[i] = value.limb(i);
    cells[n - 1] &= low_mask(width - (n - 1) * kCellBits);
  }
}

// A number as an index or amount. A number that is not a non-negative int64 becomes the largest
// int64.
template <class Value>
std::uint64_t clamp(const Value& value) {
  constexpr std::uint64_t kMax = INT64_MAX;
  if (value < Value{0} || Value{Word{kMax}} < value) return kMax;
  return static_cast<std::uint64_t>(static_cast<Word>(value));
}

}  // namespace

bool Interpreter::run(CodeRange code, PacketState& packet, const Cell* arguments) {
  return execute<Word, false>(code.begin, code.end, packet, arguments) != 0;
}

template <class Value>
void Interpreter::log_message(const LogFormat& format, const Value* arguments) {
  std::string text = format.pieces[0];
  for (std::size_t i = 1; i < format.pieces.size(); ++i) {
    text += to_decimal(arguments[i - 1]) + format.pieces[i];
  }
  output_.log_message(text);
}

// Before the instruction runs: what it reads and writes of the packet vector.
template <class Value>
void Interpreter::observe(const Instruction& i, const Cell* phv, const Value* top) {
  Effects& effects = *effects_;
  const auto number = [](const Value& value) { return clamp(value); };
  const auto whole = [&](std::uint64_t header, bool writes) {
    if (header >= image_.headers.size()) return;
    const Header& of = image_.headers[header];
    if (writes) return effects.write(of.valid_cell, of.cells);
    for (std::uint32_t c = 0; c < of.cells; ++c) effects.read(phv, of.valid_cell + c, kCellBits);
  };
  const auto field = [&](std::uint64_t header) -> const Field* {
    return header < image_.headers.size() ? &image_.headers[header].fields[i.a] : nullptr;
  };
  const auto stack = [&](std::uint32_t index, bool writes) {
    const HeaderStack& of = image_.stacks[index];
    if (writes) effects.write(of.next_cell, 1);
    effects.read(phv, of.next_cell, kCellBits);
    for (const std::uint32_t header : of.headers) {
      if (!of.of_unions) whole(header, writes);
    }
  };
  switch (i.op) {
    case Op::kField:
    case Op::kSignedField: return effects.read(phv, i.a, i.width);
    case Op::kCopyCell: effects.read(phv, i.b, i.width); return effects.write(i.a, 1);
    case Op::kSetCell: return effects.write(i.a, 1);
    case Op::kArgument: effects.reads_arguments = true; return;
    case Op::kCopyArgument: effects.reads_arguments = true; return effects.write(i.a, 1);
    case Op::kStore: return effects.write(i.a, cells_for(i.width));
    case Op::kCopyVarbit:
      effects.read(phv, i.b, kCellBits);
      return effects.write(i.a, 1 + cells_for(i.width));
    case Op::kVarbitEqual:
      effects.read(phv, i.a, kCellBits);
      return effects.read(phv, i.b, kCellBits);
    case Op::kFieldOf:
    case Op::kSignedFieldOf:
      if (const Field* of = field(number(top[-1]))) effects.read(phv, of->cell, of->width);
      return;
    case Op::kStoreFieldOf:
      if (const Field* of = field(number(top[-2]))) effects.write(of->cell, cells_for(of->width));
      return;
    case Op::kValid:
      if (const std::uint64_t id = number(top[-1]); id < image_.headers.size()) {
        effects.read(phv, image_.headers[id].valid_cell, 1);
      }
      return;
    case Op::kHeadersEqual: whole(number(top[-2]), false); return whole(number(top[-1]), false);
    case Op::kAddHeader:
    case Op::kRemoveHeader: return whole(number(top[-1]), true);
    case Op::kAssignHeader: whole(number(top[-1]), false); return whole(number(top[-2]), true);
    case Op::kLastIndex:
    case Op::kStackSize:
    case Op::kLastElement: return stack(i.a, false);
    case Op::kAssignStack: stack(i.b, false); return stack(i.a, true);
    case Op::kPush:
    case Op::kPop: return stack(i.a, true);
    case Op::kHash:
    case Op::kCalculation:
    case Op::kOnesSum:
      for (const CalculationInput& input : image_.calculations[i.a].inputs) {
        if (input.kind == CalculationInput::Kind::kField) {
          effects.read(phv, input.cell, input.width);
        }
      }
      return;
    case Op::kMeter: effects.meters = true; return;
    case Op::kMarkToDrop:
      effects.write(image_.verdict.port, 1);
      return effects.write(image_.verdict.group, 1);
    default: return;
  }
}

template <class Value, bool kObserved>
Word Interpreter::execute(std::uint32_t pc, std::uint32_t end, PacketState& packet,
                          const Cell* arguments) {
  Value stack[kStackDepth];
  Value* top = stack;  // one above the topmost number
  Cell* const phv = packet.phv;
  unsigned loops = 0;
  const auto header_of = [&](const Value& reference) -> const Header* {
    const std::uint64_t id = clamp(reference);
    return id < image_.headers.size() ? &image_.headers[id] : nullptr;
  };
  const auto push_bool = [&](bool value) { *top++ = Value{value ? 1 : 0}; };

  while (pc < end) {
    const Instruction& i = image_.code[pc++];
    if constexpr (kObserved) observe(i, phv, top);
    switch (i.op) {
      case Op::kConstant: *top++ = Value{image_.constants[i.a]}; break;
      case Op::kWideConstant:
        if constexpr (std::is_same_v<Value, Wide>) *top++ = image_.wide_constants[i.a];
        break;
      case Op::kField: *top++ = load<Value>(phv + i.a, i.width); break;
      case Op::kSignedField: *top++ = sign_extend(load<Value>(phv + i.a, i.width), i.width); break;
      case Op::kArgument: *top++ = load<Value>(arguments + i.a, i.width); break;
      case Op::kLookahead: {
        const std::size_t bit = packet.cursor * 8 + i.a;
        if (bit + i.width > packet.size * 8) {
          packet.error = image_.error_packet_too_short;
          return 0;
        }
        Cell cells[kMaxFieldBits / kCellBits];
        read_wide(packet.data, bit, i.width, cells);
        *top++ = load<Value>(cells, i.width);
        break;
      }
      case Op::kRegisterRead: {
        const RegisterArray& array = image_.registers[i.a];
        const std::uint64_t index = clamp(top[-1]);
        // An index out of range reads 0, and a write to it is ignored.
        top[-1] = index < array.size ? load<Value>(&externs_.registers[i.a][index], array.width)
                                     : Value{0};
        if constexpr (kObserved) {
          const auto value = static_cast<Cell>(static_cast<Word>(top[-1]));
          effects_->accesses.push_back({i.a, index, value, false});
        }
        break;
      }
      case Op::kRandom: {
        const auto low = static_cast<Cell>(static_cast<Word>(top[-2]));
        const auto high = static_cast<Cell>(static_cast<Word>(top[-1]));
        const Cell random = next_random(externs_.random_state);
        const Cell span = high >= low ? high - low + 1 : 1;  // 0 stands for all 2^64 numbers
        --top;
        top[-1] = Value{Word{span == 0 ? random : low + random % span}};
        if constexpr (kObserved) {
          const auto value = static_cast<Cell>(static_cast<Word>(top[-1]));
          effects_->draws.push_back({low, high, value});
        }
        break;
      }
      case Op::kHash: {
        const Word hash = calculations_.calculate(i.a, packet);
        const Word modulus = static_cast<Cell>(static_cast<Word>(top[-1]));
        --top;
        top[-1] = add(top[-1], Value{modulus == 0 ? Word{0} : hash % modulus});
        break;
      }
      case Op::kCalculation: *top++ = Value{Word{calculations_.calculate(i.a, packet)}}; break;
      case Op::kOnesSum: {
        const auto sum = static_cast<Cell>(static_cast<Word>(top[-1]));
        top[-1] = Value{Word{calculations_.ones_sum(i.a, sum, i.b != 0, packet)}};
        break;
      }
      case Op::kLastIndex: {
        const Word next = phv[image_.stacks[i.a].next_cell];
        *top++ = Value{next - 1};
        break;
      }
      case Op::kStackSize: {
        Word count = 0;
        for (std::uint32_t h : image_.stacks[i.a].headers)
          count += phv[image_.headers[h].valid_cell];
        *top++ = Value{count};
        break;
      }
      case Op::kVarbitEqual: push_bool(varbits_equal(phv + i.a, phv + i.b)); break;

      case Op::kAdd:
        --top;
        top[-1] = add(top[-1], top[0]);
        break;
      case Op::kSubtract:
        --top;
        top[-1] = subtract(top[-1], top[0]);
        break;
      case Op::kMultiply:
        --top;
        top[-1] = multiply(top[-1], top[0]);
        break;
      case Op::kDivide:
        --top;
        top[-1] = divide(top[-1], top[0]);
        break;
      case Op::kRemainder:
        --top;
        top[-1] = remainder(top[-1], top[0]);
        break;
      case Op::kAnd:
        --top;
        top[-1] = top[-1] & top[0];
        break;
      case Op::kOr:
        --top;
        top[-1] = top[-1] | top[0];
        break;
      case Op::kXor:
        --top;
        top[-1] = top[-1] ^ top[0];
        break;
      case Op::kShiftLeft:
        --top;
        top[-1] = shift_left(top[-1], Word(clamp(top[0])));
        break;
      case Op::kShiftRight:
        --top;
        top[-1] = shift_right(top[-1], Word(clamp(top[0])));
        break;
      case Op::kEqual:
        top -= 2;
        push_bool(top[0] == top[1]);
        break;
      case Op::kNotEqual:
        top -= 2;
        push_bool(!(top[0] == top[1]));
        break;
      case Op::kLess:
        top -= 2;
        push_bool(top[0] < top[1]);
        break;
      case Op::kLessEqual:
        top -= 2;
        push_bool(!(top[1] < top[0]));
        break;
      case Op::kGreater:
        top -= 2;
        push_bool(top[1] < top[0]);
        break;
      case Op::kGreaterEqual:
        top -= 2;
        push_bool(!(top[0] < top[1]));
        break;
      case Op::kComplement: top[-1] = ~top[-1]; break;
      case Op::kNegate: top[-1] = subtract(Value{0}, top[-1]); break;
      case Op::kNot:
        --top;
        push_bool(top[0] == Value{0});
        break;
      case Op::kToBool:
        --top;
        push_bool(!(top[0] == Value{0}));
        break;
      case Op::kSelect:
        top -= 2;
        top[-1] = top[-1] == Value{0} ? top[1] : top[0];
        break;
      case Op::kTwoCompMod:
        --top;
        top[-1] = sign_extend(top[-1], static_cast<unsigned>(clamp(top[0])));
        break;
      case Op::kSaturate: {
        --top;
        const Value high = ones<Value>(static_cast<unsigned>(clamp(top[0])) - 1);
        const Value low = ~high;
        if (high < top[-1]) top[-1] = high;
        if (top[-1] < low) top[-1] = low;
        break;
      }
      case Op::kSaturateUnsigned: {
        --top;
        const Value high = ones<Value>(static_cast<unsigned>(clamp(top[0])));
        if (high < top[-1]) top[-1] = high;
        if (top[-1] < Value{0}) top[-1] = Value{0};
        break;
      }

      case Op::kHeader: *top++ = Value{Word{i.a}}; break;
      case Op::kElement: {
        const HeaderStack& s = image_.stacks[i.a];
        const std::uint64_t index = clamp(top[-1]);
        top[-1] = Value{index < s.headers.size() ? Word{s.headers[index]} : Word{kNone}};
        break;
      }
      case Op::kLastElement: {
        const HeaderStack& s = image_.stacks[i.a];
        const Cell next = phv[s.next_cell];
        if (next == 0) {
          packet.error = image_.error_stack_out_of_bounds;
          return 0;
        }
        *top++ = Value{Word{s.headers[next - 1]}};
        break;
      }
      case Op::kUnionMember: {
        const std::uint64_t id = clamp(top[-1]);
        top[-1] = Value{id < image_.unions.size() && i.a < image_.unions[id].headers.size()
                            ? Word{image_.unions[id].headers[i.a]}
                            : Word{kNone}};
        break;
      }
      case Op::kFieldOf:
      case Op::kSignedFieldOf: {
        const Header* header = header_of(top[-1]);
        if (header == nullptr) {
          top[-1] = Value{0};
          break;
        }
        const Field& field = header->fields[i.a];
        top[-1] = load<Value>(phv + field.cell, field.width);
        if (i.op == Op::kSignedFieldOf) top[-1] = sign_extend(top[-1], field.width);
        break;
      }
      case Op::kValid: {
        const Header* header = header_of(top[-1]);
        --top;
        push_bool(header != nullptr && phv[header->valid_cell] != 0);
        break;
      }
      case Op::kUnionValid: {
        const std::uint64_t id = clamp(top[-1]);
        bool valid = false;
        if (id < image_.unions.size()) {
          for (std::uint32_t h : image_.unions[id].headers) {
            valid |= phv[image_.headers[h].valid_cell] != 0;
          }
        }
        --top;
        push_bool(valid);
        break;
      }
      case Op::kHeadersEqual: {
        top -= 2;
        const std::uint64_t a = clamp(top[0]), b = clamp(top[1]);
        push_bool(
            a < image_.headers.size() && b < image_.headers.size() &&
            headers_.equal(phv, static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b)));
        break;
      }

      case Op::kStore: store(phv + i.a, i.width, *--top); break;
      case Op::kStoreFieldOf: {
        top -= 2;
        if (const Header* header = header_of(top[0])) {
          const Field& field = header->fields[i.a];
          store(phv + field.cell, field.width, top[1]);
        }
        break;
      }
      case Op::kCopyCell: phv[i.a] = phv[i.b] & low_mask(i.width); break;
      case Op::kSetCell: phv[i.a] = static_cast<Cell>(image_.constants[i.b]); break;
      case Op::kCopyArgument: phv[i.a] = arguments[i.b] & low_mask(i.width); break;
      case Op::kCopyVarbit: std::copy_n(phv + i.b, 1 + cells_for(i.width), phv + i.a); break;
      case Op::kAddHeader:
      case Op::kRemoveHeader: {
        const std::uint64_t id = clamp(*--top);
        if (id < image_.headers.size()) {
          headers_.set_valid(phv, static_cast<std::uint32_t>(id), i.op == Op::kAddHeader);
        }
        break;
      }
      case Op::kAssignHeader: {
        top -= 2;
        const std::uint64_t to = clamp(top[0]), from = clamp(top[1]);
        if (to < image_.headers.size() && from < image_.headers.size()) {
          headers_.assign(phv, static_cast<std::uint32_t>(to), static_cast<std::uint32_t>(from));
        }
        break;
      }
      case Op::kAssignStack:
        phv[image_.stacks[i.a].next_cell] = phv[image_.stacks[i.b].next_cell];
        break;
      case Op::kPush: headers_.shift_stack(phv, image_.stacks[i.a], static_cast<int>(i.b)); break;
      case Op::kPop: headers_.shift_stack(phv, image_.stacks[i.a], -static_cast<int>(i.b)); break;

      case Op::kRegisterWrite: {
        top -= 2;
        const RegisterArray& array = image_.registers[i.a];
        const std::uint64_t index = clamp(top[0]);
        if (index < array.size) {
          store(&externs_.registers[i.a][index], array.width, top[1]);
          if constexpr (kObserved) {
            const Cell value = externs_.registers[i.a][index];
            effects_->accesses.push_back({i.a, index, value, true});
          }
        }
        break;
      }
      case Op::kCount: {
        const std::uint64_t index = clamp(*--top);
        auto& counter = externs_.counters[i.a];
        if (index < counter.size()) {
          ++counter[index].packets;
          counter[index].bytes += packet.received_length;
        }
        break;
      }

      case Op::kMeter: {
        const std::uint64_t index = clamp(top[-1]);
        auto& meter = externs_.meters[i.a];
        const std::uint64_t units = image_.meters[i.a].bytes ? packet.received_length : 1;
        const auto colour =
            index < meter.size() ? meter[index].mark(units, externs_.now_ns) : Meter::kGreen;
        top[-1] = Value{Word{image_.meter_colours[colour]}};
        break;
      }

      case Op::kJump: pc = i.a; break;
      case Op::kJumpIfZero:
        if (*--top == Value{0}) pc = i.a;
        break;
      case Op::kLoop:
      case Op::kLoopIfZero:
        if (i.op == Op::kLoopIfZero && !(*--top == Value{0})) break;
        if (++loops > kMaxLoops) {
          output_.assertion_failed("an action's loop runs more than " + std::to_string(kMaxLoops) +
                                   " times");
          packet.assertion_failed = packet.exited = true;
          return 0;
        }
        pc = i.a;
        break;
      case Op::kWide:
        if constexpr (std::is_same_v<Value, Word>) {
          const Word result = execute<Wide, kObserved>(pc, pc + i.a, packet, arguments);
          if (packet.error != 0 || packet.exited) return 0;
          if (i.b != 0) *top++ = result;
        }
        pc += i.a;
        break;
      case Op::kExit: packet.exited = true; return 0;

      case Op::kExtract:
        if (!headers_.extract(packet, image_.headers[i.a], 0)) return 0;
        break;
      case Op::kExtractVarbit: {
        const std::uint64_t bits = clamp(*--top);
        if (!headers_.extract(packet, image_.headers[i.a],
                              static_cast<std::uint32_t>(std::min<std::uint64_t>(bits, kNone)))) {
          return 0;
        }
        break;
      }
      case Op::kExtractStack:
      case Op::kExtractStackVarbit:
      case Op::kExtractUnionStack:
      case Op::kExtractUnionStackVarbit: {
        const HeaderStack& s = image_.stacks[i.a];
        const bool of_unions =
            i.op == Op::kExtractUnionStack || i.op == Op::kExtractUnionStackVarbit;
        std::uint64_t bits = 0;
        if (i.op == Op::kExtractStackVarbit || i.op == Op::kExtractUnionStackVarbit) {
          bits = clamp(*--top);
        }
        Cell& next = phv[s.next_cell];
        if (next >= s.headers.size()) {
          packet.error = image_.error_stack_out_of_bounds;
          return 0;
        }
        std::uint32_t header = s.headers[next];
        if (of_unions) header = image_.unions[header].headers[i.b];
        if (!headers_.extract(packet, image_.headers[header],
                              static_cast<std::uint32_t>(std::min<std::uint64_t>(bits, kNone)))) {
          return 0;
        }
        ++next;
        break;
      }
      case Op::kAdvance: {
        const std::uint64_t bits = clamp(*--top);
        if (bits % 8 != 0) {
          packet.error = image_.error_parser_invalid_argument;
          return 0;
        }
        if (bits / 8 > packet.size - packet.cursor) {
          packet.error = image_.error_packet_too_short;
          return 0;
        }
        packet.cursor += bits / 8;
        break;
      }
      case Op::kVerify:
        top -= 2;
        if (top[0] == Value{0}) {
          packet.error = static_cast<std::uint32_t>(clamp(top[1]));
          if (packet.error == 0) packet.error = PacketState::kRejected;
          return 0;
        }
        break;

      case Op::kMarkToDrop:
        phv[image_.verdict.port] = drop_port_;
        phv[image_.verdict.group] = 0;
        break;
      case Op::kCloneIngress:
      case Op::kCloneEgress:
        packet.clone_session = static_cast<std::uint32_t>(clamp(*--top)) & 0x7fff;
        packet.clone_fields = i.a;
        break;
      case Op::kResubmit:
        packet.resubmit = true;
        packet.again_fields = i.a;
        break;
      case Op::kRecirculate:
        packet.recirculate = true;
        packet.again_fields = i.a;
        break;
      case Op::kTruncate: {
        const std::uint64_t bytes = clamp(*--top);
        packet.truncate =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, packet.truncate));
        break;
      }
      case Op::kDigest: packet.digest = i.a; break;
      case Op::kLog:
        top -= i.b;
        log_message(image_.log_formats[i.a], top);
        break;
      case Op::kAssert:
        if (*--top == Value{0}) {
          output_.assertion_failed(image_.assertions[i.a]);
          packet.assertion_failed = packet.exited = true;
          return 0;
        }
        break;
    }
  }
  packet.next_pc = pc;
  return top == stack ? Word{0} : static_cast<Word>(top[-1]);
}

Cell Interpreter::value(CodeRange code, PacketState& packet) {
  return static_cast<Cell>(execute<Word, false>(code.begin, code.end, packet, nullptr));
}

std::uint32_t Interpreter::run_part(CodeRange code, PacketState& packet, const Cell* arguments) {
  execute<Word, false>(code.begin, code.end, packet, arguments);
  return packet.next_pc;
}

bool Interpreter::run(CodeRange code, PacketState& packet, const Cell* arguments,
                      Effects& effects) {
  effects_ = &effects;
  return execute<Word, true>(code.begin, code.end, packet, arguments) != 0;
}

std::uint32_t Interpreter::run_part(CodeRange code, PacketState& packet, const Cell* arguments,
                                    Effects& effects) {
  effects_ = &effects;
  execute<Word, true>(code.begin, code.end, packet, arguments);
  return packet.next_pc;
}

}  // namespace tiercast::engine
