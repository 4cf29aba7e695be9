// Statements of the image's stack code as expressions, and expressions as flat code.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// A position in the code that is known later: index into FlatWriter's list.
using Label = std::uint32_t;

class FlatWriter {
 public:
  explicit FlatWriter(const Image& image);

  Label label();
  void bind(Label label);
  void jump(Label to);
  void emit(FlatInstruction instruction);
  void emit_jump(FlatInstruction instruction, Label to);
  // The code of an action or of a parser's or checksum's part; ends where it ends.
  void statements(CodeRange range);
  // Goes to `if_false` if the condition is false, else on.
  void condition(CodeRange range, Label if_false);
  // Puts addresses in the place of labels.
  void resolve(FlatCode& out);
  const std::vector<FlatInstruction>& code() const { return code_; }
  std::uint32_t temporaries() const { return most_temporaries_; }
  // A cell for a number that the code at hand needs; all are free again at the next statement.
  std::uint16_t temporary();
  void free_temporaries() { temporaries_ = 0; }
  std::vector<std::uint32_t>& targets() { return targets_; }  // labels, until resolve()

 private:
  // A number of the stack code. "exact": the value has no more than `bits` bits and is not
  // negative, so that 64-bit arithmetic has it whole; otherwise its low 64 bits are right, which is
  // all that a store or a mask needs.
  struct Expression {
    Op op;                // kField, kConstant, kArgument, kRegisterRead or an operator
    std::uint32_t a = 0;  // cell, argument or register array
    Cell constant = 0;
    unsigned bits = 0;
    bool exact = false;
    unsigned count = 0;  // of operands
    std::uint32_t operands[3] = {0, 0, 0};
  };
  // Where a value is: in a cell, or known.
  struct Operand {
    bool immediate;
    Cell value;  // or the cell's index
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
  std::vector<std::uint32_t> labels_;      // -> address
  std::vector<Expression> expressions_;    // of the statement at hand
  std::vector<std::uint32_t> stack_;       // of expressions_
  std::vector<std::uint32_t> dirty_cell_;  // by cell: of the plain header whose field it is, or 0
  std::vector<std::uint32_t> dirty_;       // cells that are known to be set here
  std::uint32_t first_temporary_;
  std::uint32_t temporaries_ = 0;  // that the statement at hand uses
  std::uint32_t most_temporaries_ = 0;
};

}  // namespace tiercast::engine
