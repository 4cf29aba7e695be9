// Turns statements of the image's stack code into expressions, and expressions into flat code.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// A position in the code that is not known yet, as an index into FlatWriter's list.
using Label = std::uint32_t;

class FlatWriter {
 public:
  explicit FlatWriter(const Image& image);

  Label label();
  void bind(Label label);
  void jump(Label to);
  void emit(FlatInstruction instruction);
  void emit_jump(FlatInstruction instruction, Label to);
  // Writes the code of an action, or of a part of a parser or checksum. Execution continues where
  // that code ends.
  void statements(CodeRange range);
  // Jumps to `if_false` if the condition is false; otherwise continues.
  void condition(CodeRange range, Label if_false);
  // Replaces labels by addresses.
  void resolve(FlatCode& out);
  const std::vector<FlatInstruction>& code() const { return code_; }
  std::uint32_t temporaries() const { return most_temporaries_; }
  // A cell for an intermediate result. All of these are free again at the next statement.
  std::uint16_t temporary();
  void free_temporaries() { temporaries_ = 0; }
  std::vector<std::uint32_t>& targets() { return targets_; }  // hold labels until resolve()

 private:
  // A number of the stack code. It is "exact" if the value has at most `bits` bits and is not
  // negative, so that 64-bit arithmetic represents it completely. Otherwise only its low 64 bits
  // are right, which is enough for a store or a mask.
  struct Expression {
    Op op;                // kField, kConstant, kArgument, kRegisterRead or an operator
    std::uint32_t a = 0;  // index of the cell, argument or register array
    Cell constant = 0;
    unsigned bits = 0;
    bool exact = false;
    unsigned count = 0;  // number of operands
    std::uint32_t operands[3] = {0, 0, 0};
  };
  // Where a value is: in a cell, or in the instruction as an immediate.
  struct Operand {
    bool immediate;
    Cell value;  // the immediate, or the cell's index
  };

  bool push(const Instruction& instruction);
  bool push_operator(Op op);
  bool simple_statement(const Instruction& instruction, std::optional<std::uint32_t>& jump_to);
  std::uint32_t add(const Expression& expression);

  Operand operand(std::uint32_t expression);
  std::uint16_t in_cell(std::uint32_t expression);
  void compute(std::uint32_t expression, std::uint16_t to, Cell mask);
  bool is_bit(std::uint32_t expression) const;
  unsigned operations(std::uint32_t expression) const;
  void assign_header(std::uint32_t to, std::uint32_t from);
  void branch(std::uint32_t expression, bool when, Label to);
  void compare(FlatOp first, const Expression& e, std::uint16_t d, Cell mask,
               std::optional<Label> to, bool when);
  void call(std::uint32_t begin, std::uint32_t end);
  void note_write(std::uint32_t cell);
  bool translate(CodeRange range, std::optional<Label> if_false);

  const Image& image_;
  std::vector<FlatInstruction> code_;
  std::vector<std::uint32_t> targets_;
  std::vector<std::uint32_t> labels_;      // address of each label
  std::vector<Expression> expressions_;    // of the current statement
  std::vector<std::uint32_t> stack_;       // indices into expressions_
  std::vector<std::uint32_t> dirty_cell_;  // by cell: the dirty cell of the plain header whose
                                           // field it is, or 0
  std::vector<std::uint32_t> dirty_;       // dirty cells known to be set at this point
  std::uint32_t first_temporary_;
  std::uint32_t temporaries_ = 0;  // used by the current statement
  std::uint32_t most_temporaries_ = 0;
};

}  // namespace tiercast::engine
