// The fast form of a program, made from an Image at load (flatten.h).
//
// A pipeline becomes one run of instructions on the packet vector's 64-bit cells: conditions become
// jumps, actions stand in line behind the tables that call them, and an expression's intermediate
// results have cells of their own. What does not fit 64-bit arithmetic stays as it is in the image
// and is called (kCall). The image remains the reference: both forms do the same to every packet.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/engine/packet/value.h"

namespace tiercast::engine {

// Every operation, once: the enumeration and the machine's table of addresses come from it.
// d, x, y: cells; i: the immediate; "& mask" cuts a result to the width of its field.
// clang-format off: a line for each group, which the formatter would fill differently every time
#define TIERCAST_FLAT_OPS(OP)                                                               \
  OP(Set)  /* d = i */                                                                      \
  OP(Move) /* d = x & mask */                                                               \
  OP(Not)  /* d = ~x & mask */                                                              \
  /* d = (x op y) & mask, and the same with i for y. */                                     \
  OP(Add) OP(AddI)                                                                          \
  OP(Subtract) OP(SubtractI)                                                                \
  OP(Multiply) OP(MultiplyI)                                                                \
  OP(And) OP(AndI)                                                                          \
  OP(Or) OP(OrI)                                                                            \
  OP(Xor) OP(XorI)                                                                          \
  OP(ShiftLeft) OP(ShiftLeftI)                                                              \
  OP(ShiftRight) OP(ShiftRightI)                                                            \
  OP(SubtractToZero) /* d = max(x - y, 0) */                                                \
  OP(MinimumI)       /* d = min(x, i) */                                                    \
  /* d = x op y, 0 or 1. The order of the six is that of the jumps below. */                \
  OP(Equal) OP(EqualI)                                                                      \
  OP(NotEqual) OP(NotEqualI)                                                                \
  OP(Less) OP(LessI)                                                                        \
  OP(GreaterEqual) OP(GreaterEqualI)                                                        \
  OP(Greater) OP(GreaterI)                                                                  \
  OP(LessEqual) OP(LessEqualI)                                                              \
  /* To target if x op y. */                                                                \
  OP(JumpEqual) OP(JumpEqualI)                                                              \
  OP(JumpNotEqual) OP(JumpNotEqualI)                                                        \
  OP(JumpLess) OP(JumpLessI)                                                                \
  OP(JumpGreaterEqual) OP(JumpGreaterEqualI)                                                \
  OP(JumpGreater) OP(JumpGreaterI)                                                          \
  OP(JumpLessEqual) OP(JumpLessEqualI)                                                      \
  OP(Jump)                                                                                  \
  OP(JumpHit) /* if the last table was hit */                                               \
  OP(End)                                                                                   \
  OP(Exit)           /* ends, and the packet's pipeline with it */                          \
  OP(Argument)       /* d = argument i of the last table's action & mask */                 \
  OP(Table)          /* table i; on at targets[target + action], the last: no action */     \
  OP(RegisterRead)   /* d = register array i [x] & mask */                                  \
  OP(RegisterWrite)  /* register array i [x] = y & mask */                                  \
  OP(Count)          /* counter array i [x] */                                              \
  OP(MarkToDrop)                                                                            \
  OP(Call)           /* the image's code[i] to code[target - 1], with the last arguments */ \
  OP(CallCondition)  /* the same; d = whether its result is not 0 */                        \
  OP(VerifyChecksum) /* checksum i of the image */                                          \
  OP(UpdateChecksum)                                                                        \
  OP(Clear) /* cells d to d + i - 1 = 0 */                                                  \
  OP(Copy)  /* cells d to d + i - 1 = those from x on */                                    \
  /* Of the parser; an error ends it. */                                                    \
  OP(Extract)   /* plain header i */                                                        \
  OP(Lookahead) /* d = the target bits that lie i bits ahead */                             \
  OP(NextState) /* one state less that the packet may pass */                               \
  OP(RunState)  /* state i of the image; on at targets[target + state], the last: accept */ \
  OP(Reject)    /* with error i */
// clang-format on

enum class FlatOp : std::uint16_t {
#define TIERCAST_NAME(name) k##name,
  TIERCAST_FLAT_OPS(TIERCAST_NAME)
#undef TIERCAST_NAME
};

struct FlatInstruction {
  FlatOp op;
  std::uint16_t d = 0;
  std::uint16_t x = 0;
  std::uint16_t y = 0;
  std::uint32_t target = 0;
  Cell i = 0;
  Cell mask = ~Cell{0};
};

struct FlatCode {
  static constexpr std::uint32_t kAbsent = 0xffffffff;
  std::vector<FlatInstruction> code;
  std::vector<std::uint32_t> targets;  // of kTable and kRunState
  // Where each part starts; kAbsent: the program has no flat code.
  std::uint32_t parser = kAbsent;
  std::uint32_t verify_checksums = kAbsent;
  std::uint32_t ingress = kAbsent;
  std::uint32_t egress = kAbsent;
  std::uint32_t update_checksums = kAbsent;
  bool present() const { return ingress != kAbsent; }
  bool is_empty(std::uint32_t start) const { return code[start].op == FlatOp::kEnd; }
};

// A field that one 64-bit load of its header covers: (big-endian 8 bytes at `byte`) >> shift.
struct FieldPlan {
  std::uint32_t cell = 0;
  std::uint16_t byte = 0;
  std::uint8_t shift = 0;
  std::uint8_t whole_bytes = 0;  // 1, 2, 4, 6, 8: stored as such; 0: within other bits
  Cell mask = 0;
};

// How a header's bytes reach its cells and come back. A plain header is copied from the received
// frame when it leaves, and only the fields that the program may change are written over it;
// fields that nothing reads or changes never reach a cell. Plain: not in a stack or union, without
// varbit field, never named as a whole but for its validity, or in an assignment to or from plain
// headers, which then read and write the same fields.
struct HeaderPlan {
  bool plain = false;
  std::uint32_t valid_cell = 0;
  std::uint32_t origin_cell = 0;  // 1 + where in the frame the header was; 0: it was not received
  std::uint32_t dirty_cell = 0;   // not 0: flat code may have changed a field
  std::uint32_t bytes = 0;
  std::vector<FieldPlan> read;       // into cells, by the parser
  std::vector<FieldPlan> flat_read;  // those of them that flat code looks at afterwards
  std::vector<FieldPlan> write;      // over a header that was received
  std::vector<FieldPlan> fields;     // all of them: a header that was not received
};

// What the deparser asks of each header, close together.
struct DeparseStep {
  std::uint32_t header = 0;
  std::uint32_t valid_cell = 0;
  std::uint32_t origin_cell = 0;  // 0: not a plain header
  std::uint32_t dirty_cell = 0;
  std::uint32_t bytes = 0;        // without a varbit field
  std::uint32_t varbit_cell = 0;  // 0: none
};

// Cells [first, first + count).
struct CellRun {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

struct PlannedKeyPart {
  std::uint32_t cell = 0;
  std::uint32_t shift = 0;
};

// csum16 over fields that are all present: 2^16 = 1 modulo 2^16 - 1, so that a field may be added
// as a whole, shifted to its place within a 16-bit word.
struct ChecksumPlan {
  bool plain = false;
  std::vector<std::uint32_t> valid_cells;  // else the general form, which leaves headers out
  std::vector<PlannedKeyPart> terms;
};

}  // namespace tiercast::engine
