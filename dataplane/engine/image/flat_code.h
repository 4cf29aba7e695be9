// The fast form of a program, made from an Image when it is loaded (flatten.h).
//
// A pipeline becomes one run of instructions on the packet vector's 64-bit cells. Conditions become
// jumps, actions are inlined behind the tables that call them, and the intermediate results of an
// expression have cells of their own. What does not fit 64-bit arithmetic stays in the image and is
// called (kCall). The image remains the reference: both forms treat every packet alike.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/engine/packet/value.h"

namespace tiercast::engine {

// The list of all operations. The enumeration and the machine's table of addresses are made from
// it. d, x, y: cells; i: the immediate; "& mask" cuts a result to the width of its field.
// clang-format off: one line for each group, which the formatter would fill differently every time
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
  /* Jumps to target if x op y. */                                                          \
  OP(JumpEqual) OP(JumpEqualI)                                                              \
  OP(JumpNotEqual) OP(JumpNotEqualI)                                                        \
  OP(JumpLess) OP(JumpLessI)                                                                \
  OP(JumpGreaterEqual) OP(JumpGreaterEqualI)                                                \
  OP(JumpGreater) OP(JumpGreaterI)                                                          \
  OP(JumpLessEqual) OP(JumpLessEqualI)                                                      \
  OP(Jump)                                                                                  \
  OP(JumpHit) /* to target if the last table was hit */                                     \
  OP(End)                                                                                   \
  OP(Exit)           /* ends the packet's pipeline */                                       \
  OP(Argument)       /* d = argument i of the last table's action & mask */                 \
  OP(Table)          /* table i, then targets[target + action]; the last: no action */      \
  OP(RegisterRead)   /* d = register array i [x] & mask */                                  \
  OP(RegisterWrite)  /* register array i [x] = y & mask */                                  \
  OP(Count)          /* counts in counter array i [x] */                                    \
  OP(MarkToDrop)                                                                            \
  OP(Call)           /* the image's code[i] to code[target - 1], with the last arguments */ \
  OP(CallCondition)  /* the same; d = whether its result is not 0 */                        \
  OP(VerifyChecksum) /* checksum i of the image */                                          \
  OP(UpdateChecksum)                                                                        \
  OP(Clear) /* cells d to d + i - 1 = 0 */                                                  \
  OP(Copy)  /* cells d to d + i - 1 = x to x + i - 1 */                                     \
  /* The parser's. An error ends it. */                                                     \
  OP(Extract)   /* plain header i */                                                        \
  OP(Lookahead) /* d = the target bits that lie i bits ahead */                             \
  OP(NextState) /* counts one of the states that a packet may pass */                       \
  OP(RunState)  /* image state i, then targets[target + state]; the last: accept */         \
  OP(Reject)    /* rejects with error i */
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
  std::vector<std::uint32_t> targets;  // for kTable and kRunState
  // Where each part starts; kAbsent: the program has no flat code.
  std::uint32_t parser = kAbsent;
  std::uint32_t verify_checksums = kAbsent;
  std::uint32_t ingress = kAbsent;
  std::uint32_t egress = kAbsent;
  std::uint32_t update_checksums = kAbsent;
  bool present() const { return ingress != kAbsent; }
  bool is_empty(std::uint32_t start) const { return code[start].op == FlatOp::kEnd; }
};

// A field that one 64-bit load from its header covers: (big-endian 8 bytes at `byte`) >> shift.
struct FieldPlan {
  std::uint32_t cell = 0;
  std::uint16_t byte = 0;
  std::uint8_t shift = 0;
  std::uint8_t whole_bytes = 0;  // 1, 2, 4, 6, 8: stored as whole bytes; 0: shares bytes with other
                                 // fields
  Cell mask = 0;
};

// How a header's bytes get into cells and back out. When a plain header leaves, it is copied from
// the received frame, and only the fields that the program may change are written over it. Fields
// that nothing reads or changes are never loaded into a cell. A header is plain if it is not in a
// stack or union, has no varbit field, and is named as a whole only for its validity or in an
// assignment from or to another plain header; the two then read and write the same fields.
struct HeaderPlan {
  bool plain = false;
  std::uint32_t valid_cell = 0;
  std::uint32_t origin_cell = 0;  // 1 + the header's offset in the frame; 0: it was not received
  std::uint32_t dirty_cell = 0;   // not 0: flat code may have changed a field
  std::uint32_t bytes = 0;
  std::vector<FieldPlan> read;       // fields that the parser loads into cells
  std::vector<FieldPlan> flat_read;  // those of `read` that flat code uses later
  std::vector<FieldPlan> write;      // fields to write over a received header
  std::vector<FieldPlan> fields;     // all fields, for a header that was not received
};

// What the deparser needs to know of each header, packed together.
struct DeparseStep {
  std::uint32_t header = 0;
  std::uint32_t valid_cell = 0;
  std::uint32_t origin_cell = 0;  // 0: not a plain header
  std::uint32_t dirty_cell = 0;
  std::uint32_t bytes = 0;        // without the varbit field
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

// A csum16 over fields that are all present. Since 2^16 = 1 modulo 2^16 - 1, a whole field may be
// added at once, shifted to its place within a 16-bit word.
struct ChecksumPlan {
  bool plain = false;
  std::vector<std::uint32_t> valid_cells;  // if one is 0, use the general form, which can leave
                                           // headers out
  std::vector<PlannedKeyPart> terms;
};

}  // namespace tiercast::engine
