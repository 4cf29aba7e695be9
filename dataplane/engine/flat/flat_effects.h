// What each instruction of flat code reads and writes. This is the only place that says so.
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
  void remove(const CellSet& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] &= ~other.words_[w];
  }
  CellSet common(const CellSet& other) const {
    CellSet found(*this);
    for (std::size_t w = 0; w < words_.size(); ++w) found.words_[w] &= other.words_[w];
    return found;
  }
  void add_all() { words_.assign(words_.size(), ~Cell{0}); }
  bool operator==(const CellSet&) const = default;

 private:
  std::vector<Cell> words_;
};

// What counts as a read. kReceived: assume headers that came with the frame. Their unchanged fields
// leave with the frame's bytes, and their checksum is verified on those bytes, so neither reads a
// cell.
enum class Reads { kAll, kReceived };

// Which operands of an operation are cells.
struct Operands {
  bool d = false;  // written if the instruction completes
  bool x = false;
  bool y = false;
};
Operands operands(FlatOp op);

bool is_conditional_jump(FlatOp op);  // jumps to `target` or continues
bool is_branch(FlatOp op);            // chooses among FlatCode::targets
bool ends(FlatOp op);                 // nothing follows
// Whether the only effect is the result in d, so that the instruction may be removed if d is never
// read.
bool is_pure(FlatOp op);
// Whether it may end the code before the next instruction.
bool may_end(FlatOp op);

void add_reads(const Image& image, const FlatInstruction& instruction, CellSet& cells,
               Reads reads = Reads::kAll);

struct Writes {
  bool any = false;                    // may write any cell
  std::vector<std::uint32_t> certain;  // written whenever execution continues after the instruction
  std::vector<std::uint32_t> perhaps;
};
// For instructions that do not have Operands::d.
Writes writes(const Image& image, const FlatInstruction& instruction);

// The cells that the flat code from an instruction on may write.
CellSet written_from(const Image& image, std::uint32_t start);

// What those parts of the image read that are not flat code.
void add_field(CellSet& cells, std::uint32_t cell, std::uint32_t width);
void add_stack_code(const Image& image, std::uint32_t begin, std::uint32_t end, CellSet& cells);
// The cells that are read between the parts of flat code and after them.
CellSet cells_used_outside(const Image& image, Reads reads = Reads::kAll);
// Of these, all but the fields of the headers that leave.
CellSet cells_used_between(const Image& image);

}  // namespace tiercast::engine
