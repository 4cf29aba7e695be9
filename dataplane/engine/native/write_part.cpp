// Flat code as statements. A cell is an element of the packet vector; an intermediate result, which
// does not outlive its part, is a local variable.
#include <algorithm>
#include <map>
#include <vector>

#include "dataplane/engine/flat/flat_blocks.h"
#include "dataplane/engine/flat/flat_effects.h"
#include "dataplane/engine/image/limits.h"
#include "dataplane/engine/native/writer.h"
#include "dataplane/engine/tables/match_table.h"

namespace tiercast::engine {

namespace {

class PartWriter {
 public:
  PartWriter(const Image& image, std::string& out)
      : image_(image), code_(image.flat.code), out_(out) {}

  void write(std::string_view name, std::uint32_t start) {
    find_reachable(start);
    parses_ = start == image_.flat.parser;
    out_ +=
        "void " + std::string(name) + "_on([[maybe_unused]] const NativeContext& c, " +
        "[[maybe_unused]] NativePacket& s,\n    [[maybe_unused]] std::uint64_t* __restrict p) {\n";
    if (parses_) {
      out_ += "  std::size_t cursor = 0;\n  s.error = 0;\n  s.states_left = (s.size + " +
              number(kUnmovedRounds) + ") * " + number(image_.parser_states.size() + 1) + ";\n";
    }
    out_ +=
        "  [[maybe_unused]] const std::uint64_t* arguments = nullptr;\n"
        "  [[maybe_unused]] bool hit = false;\n";
    declare_locals();
    if (reachable_.begin()->first != start) go(start);
    for (auto at = reachable_.begin(); at != reachable_.end(); ++at) {
      if (at->second) out_ += "L" + std::to_string(at->first) + ":\n";
      const FlatInstruction& i = code_[at->first];
      write(i);
      const auto next = std::next(at);
      if (!falls_through(i.op)) continue;
      if (next == reachable_.end() || next->first != at->first + 1) go(at->first + 1);
    }
    out_ += parses_ ? "[[maybe_unused]] end:\n  s.cursor = cursor;\n"
                    : "[[maybe_unused]] end:\n  return;\n";
    out_ += "}\n\nvoid " + std::string(name) + "(const NativeContext& c, NativePacket& s) { " +
            std::string(name) + "_on(c, s, s.phv); }\n\n";
  }

 private:
  static bool falls_through(FlatOp op) {
    return op != FlatOp::kJump && !ends(op) && !is_branch(op);
  }
  std::span<const std::uint32_t> targets(const FlatInstruction& branch) const {
    return branch_targets(image_, image_.flat, branch);
  }

  void find_reachable(std::uint32_t start) {
    std::vector<std::uint32_t> open = {start};
    const auto reach = [&](std::uint32_t at, bool labelled) {
      const auto [found, is_new] = reachable_.try_emplace(at, false);
      found->second |= labelled;
      if (is_new) open.push_back(at);
    };
    reachable_[start] = false;
    while (!open.empty()) {
      const std::uint32_t at = open.back();
      open.pop_back();
      const FlatInstruction& i = code_[at];
      if (i.op == FlatOp::kJump || is_conditional_jump(i.op)) reach(i.target, true);
      if (is_branch(i.op)) {
        for (const std::uint32_t target : targets(i)) reach(target, true);
      }
      // Labelled, if another instruction lies between.
      if (falls_through(i.op)) reach(at + 1, false);
    }
    if (reachable_.begin()->first != start) reachable_[start] = true;
    // A jump over code that is not reached needs a label, too.
    for (auto at = reachable_.begin(); at != reachable_.end(); ++at) {
      const auto next = std::next(at);
      if (falls_through(code_[at->first].op) &&
          (next == reachable_.end() || next->first != at->first + 1)) {
        reachable_[at->first + 1] = true;
      }
    }
  }

  bool is_local(std::uint32_t index) const { return index >= image_.shared_cells; }
  std::string place(std::uint32_t index) const {
    return is_local(index) ? "t" + std::to_string(index) : cell(index);
  }

  std::string register_cell(std::uint64_t array, const std::string& index) const {
    const RegisterArray& cells = image_.registers[array];
    return "c.registers[" + number(cells.first) + " + " + index + " * " + number(cells.stride) +
           "]";
  }

  void declare_locals() {
    for (std::uint32_t index = image_.shared_cells; index < image_.phv_cells; ++index) {
      const bool used = std::any_of(reachable_.begin(), reachable_.end(), [&](const auto& one) {
        const FlatInstruction& i = code_[one.first];
        const std::uint32_t run =
            i.op == FlatOp::kClear || i.op == FlatOp::kCopy ? static_cast<std::uint32_t>(i.i) : 1;
        return (index >= i.d && index < i.d + run) || (index >= i.x && index < i.x + run) ||
               index == i.y;
      });
      if (used) out_ += "  [[maybe_unused]] std::uint64_t " + place(index) + " = 0;\n";
    }
  }

  void go(std::uint32_t target) { out_ += "  goto L" + std::to_string(target) + ";\n"; }
  void line(const std::string& text) { out_ += "  " + text + "\n"; }
  void set(const FlatInstruction& i, const std::string& value) {
    line(place(i.d) + " = " + (i.mask == ~Cell{0} ? value : "(" + value + ") & " + number(i.mask)) +
         ";");
  }
  void jump_if(const FlatInstruction& i, const char* op, const std::string& right) {
    line("if (" + place(i.x) + " " + op + " " + right + ") goto L" + std::to_string(i.target) +
         ";");
  }
  // The interpreter finds the packet vector by the pointer that this code uses.
  void call(const std::string& text) {
    line("s.phv = p;");
    if (parses_) line("s.cursor = cursor;");
    line(text);
    if (parses_) line("cursor = s.cursor;");
  }

  void write_table(const FlatInstruction& i) {
    const Table& table = image_.tables[i.i];
    const std::string index = std::to_string(i.i);
    line("{");
    if (table.keys.empty() && MatchTable::is_plain(table)) {
      line("  const TableView& table = *c.tables[" + index + "];");
      line("  const std::uint32_t action = table.default_action;");
      line("  hit = false;");
      line("  arguments = table.default_arguments;");
    } else if (MatchTable::is_packed(table) && MatchTable::is_plain(table)) {
      std::uint32_t shift = 0;
      std::string key;
      for (const Key& part : table.keys) {
        key += key.empty() ? place(part.cell)
                           : " | " + place(part.cell) + " << " + std::to_string(shift);
        shift += part.width;
      }
      const bool exact = table.keys[0].kind == MatchKind::kExact;
      line("  const TableView& table = *c.tables[" + index + "];");
      line(std::string("  const TableView::Slot& slot = find_slot(") +
           (exact ? "table.tuples[0], " : "table, ") + key + ");");
      line("  hit = slot.entry != TableView::kFree;");
      line("  const std::uint32_t action = hit ? slot.action : table.default_action;");
      line("  arguments = hit ? table.arguments + std::size_t{slot.entry} * " +
           number(MatchTable::argument_cells(image_, table)) + " : table.default_arguments;");
    } else {
      line("  TableOutcome outcome;");
      call("c.table(c, s, " + index + ", outcome);");
      line("  const std::uint32_t action = outcome.action;");
      line("  hit = outcome.hit;");
      line("  arguments = outcome.arguments;");
    }
    write_switch("action", targets(i));
    line("}");
  }

  void write_switch(const std::string& value, std::span<const std::uint32_t> all) {
    line("  switch (" + value + ") {");
    for (std::size_t n = 0; n + 1 < all.size(); ++n) {
      line("    case " + std::to_string(n) + ": goto L" + std::to_string(all[n]) + ";");
    }
    line("    default: goto L" + std::to_string(all.back()) + ";");
    line("  }");
  }

  void write_lookahead(std::uint64_t bit, unsigned width, const std::string& to) {
    const unsigned skip = bit % 8;
    line("if (cursor * 8 + " + number(bit + width) + " > s.size * 8) {");
    line("  s.error = " + number(image_.error_packet_too_short) + ";");
    line("  goto end;");
    line("}");
    const std::string at = "s.data + cursor + " + std::to_string(bit / 8);
    std::string value;
    if (skip + width <= kCellBits) {
      value = "load64(" + at + ") >> " + std::to_string(kCellBits - skip - width);
    } else {
      const unsigned more = skip + width - kCellBits;  // bits of the ninth byte
      value = "load64(" + at + ") << " + std::to_string(more) + " | load8(" + at + " + 8) >> " +
              std::to_string(8 - more);
    }
    line(to + " = (" + value + ") & " + number(low_mask(width)) + ";");
  }

  // The parser's verify() of a field with a constant error needs no interpreter.
  bool write_verification(const FlatInstruction& i) {
    const std::uint64_t count = i.target - i.i;
    if (!parses_ || count < 3 || count > 4) return false;
    if (count == 4 && image_.code[i.i + 1].op != Op::kToBool) return false;
    const Instruction& field = image_.code[i.i];
    const Instruction& error = image_.code[i.target - 2];
    const Instruction& verify = image_.code[i.target - 1];
    if (field.op != Op::kField || field.width > kCellBits || error.op != Op::kConstant ||
        verify.op != Op::kVerify) {
      return false;
    }
    const Word value = image_.constants[error.a];
    if (value <= 0 || value > 0xffffffff) return false;
    line("if (" + place(field.a) + " == 0) {");
    line("  s.error = " + number(static_cast<std::uint64_t>(value)) + ";");
    line("  goto end;");
    line("}");
    return true;
  }

  // Stack code that only stores what lies ahead of the parser needs no interpreter.
  bool write_stored_lookahead(const FlatInstruction& i) {
    if (!parses_ || i.target - i.i != 2) return false;
    const Instruction& ahead = image_.code[i.i];
    const Instruction& store = image_.code[i.i + 1];
    if (ahead.op != Op::kLookahead || store.op != Op::kStore || ahead.width == 0 ||
        ahead.width > kCellBits || store.width < ahead.width || store.width > kCellBits) {
      return false;
    }
    write_lookahead(ahead.a, ahead.width, place(store.a));
    return true;
  }

  // The sum over a whole received header, as Checksums has it.
  void write_verify(const FlatInstruction& i) {
    const Checksum& checksum = image_.checksums[i.i];
    const std::string otherwise = "c.verify(c, s, " + std::to_string(i.i) + ");";
    if (checksum.whole_header == kNone) return call(otherwise);
    const HeaderPlan& plan = image_.header_plans[checksum.whole_header];
    line("if (" + place(plan.valid_cell) + " != 0 && " + place(plan.origin_cell) + " != 0) {");
    line("  const std::byte* const h = s.data + " + place(plan.origin_cell) + " - 1;");
    std::string sum;
    std::uint32_t byte = 0;
    for (; byte + 4 <= plan.bytes; byte += 4) {
      sum += (sum.empty() ? "load32(h + " : " + load32(h + ") + std::to_string(byte) + ")";
    }
    if (byte < plan.bytes) {
      sum += (sum.empty() ? "(load16(h + " : " + (load16(h + ") + std::to_string(byte) + ") << 16)";
    }
    line("  const std::uint64_t sum = " + sum + " - (" + place(checksum.cell) + " << " +
         std::to_string(checksum.whole_header_shift) + ");");
    line("  if ((checksum_of(sum) & " + number(low_mask(checksum.width)) +
         ") != " + place(checksum.cell) + ") " + place(image_.checksum_error_cell) + " = 1;");
    line("} else {");
    call("  " + otherwise);
    line("}");
  }

  void write_update(const FlatInstruction& i) {
    const Checksum& checksum = image_.checksums[i.i];
    const ChecksumPlan& plan = image_.checksum_plans[checksum.calculation];
    const std::string otherwise = "c.update(c, s, " + std::to_string(i.i) + ");";
    if (!plan.plain || plan.terms.empty()) return call(otherwise);
    std::string all_valid, sum;
    for (const std::uint32_t valid : plan.valid_cells) {
      all_valid += (all_valid.empty() ? "" : " && ") + place(valid) + " != 0";
    }
    for (const PlannedKeyPart& term : plan.terms) {
      sum += (sum.empty() ? "(" : " + (") + place(term.cell) + " << " + std::to_string(term.shift) +
             ")";
    }
    line("if (" + (all_valid.empty() ? "true" : all_valid) + ") {");
    line("  " + place(checksum.cell) + " = checksum_of(" + sum + ") & " +
         number(low_mask(checksum.width)) + ";");
    line("} else {");
    call("  " + otherwise);
    line("}");
  }

  void write_range(const FlatInstruction& i) {
    const auto count = static_cast<std::uint32_t>(i.i);
    const bool copies = i.op == FlatOp::kCopy;
    const bool in_vector = !is_local(i.d + count - 1) && (!copies || !is_local(i.x + count - 1));
    if (in_vector && !copies) return write_clear("p", i.d, count, out_);
    const bool apart = i.d + count <= i.x || i.x + count <= i.d;
    if (in_vector && apart)
      return write_copy("p", "p", i.d, static_cast<std::uint32_t>(i.x), count, out_);
    // In the order that is right where the ranges overlap.
    for (std::uint32_t n = 0; n < count; ++n) {
      const std::uint32_t k = i.d <= i.x ? n : count - 1 - n;
      line(place(i.d + k) + " = " + (copies ? place(i.x + k) : "0") + ";");
    }
  }

  void write(const FlatInstruction& i);

  const Image& image_;
  const std::vector<FlatInstruction>& code_;
  std::string& out_;
  std::map<std::uint32_t, bool> reachable_;  // by address: whether it needs a label
  bool parses_ = false;
};

void PartWriter::write(const FlatInstruction& i) {
  const auto x = [&] { return place(i.x); };
  const auto y = [&] { return place(i.y); };
  const auto binary = [&](const char* op) { set(i, x() + " " + op + " " + y()); };
  const auto immediate = [&](const char* op) { set(i, x() + " " + op + " " + number(i.i)); };
  const auto compare = [&](const char* op, const std::string& right) {
    set(i, "std::uint64_t{" + x() + " " + op + " " + right + "}");
  };
  const auto shift = [&](const char* op) {
    set(i, y() + " < 64 ? " + x() + " " + op + " " + y() + " : 0");
  };
  const std::string index = std::to_string(i.i);
  switch (i.op) {
    case FlatOp::kSet: return line(place(i.d) + " = " + number(i.i) + ";");
    case FlatOp::kMove: return set(i, x());
    case FlatOp::kNot: return set(i, "~" + x());
    case FlatOp::kAdd: return binary("+");
    case FlatOp::kAddI: return immediate("+");
    case FlatOp::kSubtract: return binary("-");
    case FlatOp::kSubtractI: return immediate("-");
    case FlatOp::kMultiply: return binary("*");
    case FlatOp::kMultiplyI: return immediate("*");
    case FlatOp::kAnd: return binary("&");
    case FlatOp::kAndI: return immediate("&");
    case FlatOp::kOr: return binary("|");
    case FlatOp::kOrI: return immediate("|");
    case FlatOp::kXor: return binary("^");
    case FlatOp::kXorI: return immediate("^");
    case FlatOp::kShiftLeft: return shift("<<");
    case FlatOp::kShiftLeftI: return immediate("<<");
    case FlatOp::kShiftRight: return shift(">>");
    case FlatOp::kShiftRightI: return immediate(">>");
    case FlatOp::kSubtractToZero:
      return set(i, x() + " > " + y() + " ? " + x() + " - " + y() + " : 0");
    case FlatOp::kMinimumI:
      return set(i, x() + " < " + number(i.i) + " ? " + x() + " : " + number(i.i));
    case FlatOp::kEqual: return compare("==", y());
    case FlatOp::kEqualI: return compare("==", number(i.i));
    case FlatOp::kNotEqual: return compare("!=", y());
    case FlatOp::kNotEqualI: return compare("!=", number(i.i));
    case FlatOp::kLess: return compare("<", y());
    case FlatOp::kLessI: return compare("<", number(i.i));
    case FlatOp::kGreaterEqual: return compare(">=", y());
    case FlatOp::kGreaterEqualI: return compare(">=", number(i.i));
    case FlatOp::kGreater: return compare(">", y());
    case FlatOp::kGreaterI: return compare(">", number(i.i));
    case FlatOp::kLessEqual: return compare("<=", y());
    case FlatOp::kLessEqualI: return compare("<=", number(i.i));
    case FlatOp::kJumpEqual: return jump_if(i, "==", y());
    case FlatOp::kJumpEqualI: return jump_if(i, "==", number(i.i));
    case FlatOp::kJumpNotEqual: return jump_if(i, "!=", y());
    case FlatOp::kJumpNotEqualI: return jump_if(i, "!=", number(i.i));
    case FlatOp::kJumpLess: return jump_if(i, "<", y());
    case FlatOp::kJumpLessI: return jump_if(i, "<", number(i.i));
    case FlatOp::kJumpGreaterEqual: return jump_if(i, ">=", y());
    case FlatOp::kJumpGreaterEqualI: return jump_if(i, ">=", number(i.i));
    case FlatOp::kJumpGreater: return jump_if(i, ">", y());
    case FlatOp::kJumpGreaterI: return jump_if(i, ">", number(i.i));
    case FlatOp::kJumpLessEqual: return jump_if(i, "<=", y());
    case FlatOp::kJumpLessEqualI: return jump_if(i, "<=", number(i.i));
    case FlatOp::kJump: return go(i.target);
    case FlatOp::kJumpHit: return line("if (hit) goto L" + std::to_string(i.target) + ";");
    case FlatOp::kEnd: return line("goto end;");
    case FlatOp::kExit: return line("s.exited = true;\n  goto end;");
    case FlatOp::kArgument: return set(i, "arguments[" + index + "]");
    case FlatOp::kTable: return write_table(i);
    case FlatOp::kRegisterRead: {
      const std::string size = number(image_.registers[i.i].size);
      return set(i, x() + " < " + size + " ? " + register_cell(i.i, x()) + " : 0");
    }
    case FlatOp::kRegisterWrite: {
      const std::string size = number(image_.registers[i.i].size);
      return line("if (" + x() + " < " + size + ") " + register_cell(i.i, x()) + " = " + y() +
                  " & " + number(i.mask) + ";");
    }
    case FlatOp::kCount:
      line("if (" + x() + " < " + number(image_.counter_sizes[i.i]) + ") {");
      line("  std::uint64_t* const counter = c.counters[" + index + "] + 2 * " + x() + ";");
      return line("  ++counter[0];\n    counter[1] += s.received_length;\n  }");
    case FlatOp::kMarkToDrop:
      line(place(image_.verdict.port) + " = c.drop_port;");
      return line(place(image_.verdict.group) + " = 0;");
    case FlatOp::kCall:
      if (write_stored_lookahead(i) || write_verification(i)) return;
      call("c.call(c, s, " + index + ", " + std::to_string(i.target) + ", arguments);");
      return line("if (s.exited || s.error != 0) goto end;");
    case FlatOp::kCallCondition:
      return call(place(i.d) + " = c.condition(c, s, " + index + ", " + std::to_string(i.target) +
                  ");");
    case FlatOp::kVerifyChecksum: return write_verify(i);
    case FlatOp::kUpdateChecksum: return write_update(i);
    case FlatOp::kClear:
    case FlatOp::kCopy: return write_range(i);
    case FlatOp::kExtract: return write_extract(image_, image_.header_plans[i.i], out_);
    case FlatOp::kLookahead: return write_lookahead(i.i, i.target, place(i.d));
    case FlatOp::kNextState:
      return line("if (s.states_left-- == 0) {\n    s.error = " +
                  number(image_.error_parser_invalid_argument) + ";\n    goto end;\n  }");
    case FlatOp::kRunState:
      line("{");
      line("  std::uint32_t state = 0;");
      line("  bool goes_on = false;");
      call("goes_on = c.run_state(c, s, " + index + ", state);");
      line("  if (!goes_on) goto end;");
      write_switch("state", targets(i));
      return line("}");
    case FlatOp::kReject: return line("s.error = " + number(i.i) + ";\n  goto end;");
  }
}

}  // namespace

void write_part(const Image& image, std::string_view name, std::uint32_t start, std::string& out) {
  PartWriter(image, out).write(name, start);
}

}  // namespace tiercast::engine
