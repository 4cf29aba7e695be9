// What each instruction of flat code reads and writes, stated only here.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// A set of cells of the packet vector.
class CellSet {
 public:
  explicit CellSet(std::size_t count) : words_((count + 63) / 64) {}
  void add(std::uint32_t cell) { words_[cell / 64] |= Cell{1} << cell % 64; }
  void remove(std::uint32_t cell) { words_[cell / 64] &= ~(Cell{1} << cell % 64); }
  bool has(std::uint32_t cell) const { return words_[cell / 64] >> cell % 64 & 1; }
  void add(std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t c = 0; c < count; ++c) add(first + c);
  }
  void add(const CellSet& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }
  void add_all() { words_.assign(words_.size(), ~Cell{0}); }
  bool operator==(const CellSet&) const = default;

 private:
  std::vector<Cell> words_;
};

// What "read" means. kReceived: of headers that came with the frame, whose unchanged fields leave
// with the frame's bytes, and whose checksum is verified on them, without a look at a cell.
enum class Reads { kAll, kReceived };

// The operands that an operation has in cells.
struct Operands {
  bool d = false;  // written, if the instruction is completed
  bool x = false;
  bool y = false;
};
Operands operands(FlatOp op);

bool is_conditional_jump(FlatOp op);  // to target, or on
bool is_branch(FlatOp op);            // has targets in FlatCode::targets
bool ends(FlatOp op);                 // nothing follows
// No effect but the result in d: an instruction that may be left out if d is never read.
bool is_pure(FlatOp op);
// May end the code before the next instruction.
bool may_end(FlatOp op);

void add_reads(const Image& image, const FlatInstruction& instruction, CellSet& cells,
               Reads reads = Reads::kAll);

struct Writes {
  bool any = false;                    // perhaps every cell
  std::vector<std::uint32_t> certain;  // whenever the code goes on behind the instruction
  std::vector<std::uint32_t> perhaps;
};
// Of an instruction without Operands::d.
Writes writes(const Image& image, const FlatInstruction& instruction);

// What the parts of the image that are not flat code read.
void add_field(CellSet& cells, std::uint32_t cell, std::uint32_t width);
void add_stack_code(const Image& image, std::uint32_t begin, std::uint32_t end, CellSet& cells);
// What is read between and after the parts of flat code.
CellSet cells_used_outside(const Image& image, Reads reads = Reads::kAll);

}  // namespace tiercast::engine
