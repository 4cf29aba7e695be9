// The passes over flat code. Random code must leave the same values in the cells that matter before
// and after them, and each pass must achieve what it is for.
#include "dataplane/engine/flat/optimize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "dataplane/engine/run/machine.h"

namespace tiercast::engine {
namespace {

constexpr std::uint32_t kFields = 8;  // cells 2 to 9, of these widths
constexpr std::uint32_t kWidths[kFields] = {1, 1, 8, 9, 16, 32, 48, 64};
constexpr std::uint32_t kFirstField = 2;   // after the scratch cell and the header's validity
constexpr std::uint32_t kTemporaries = 6;  // not read afterwards
constexpr std::uint32_t kCells = kFirstField + kFields + kTemporaries;

class Nowhere : public Output {
 public:
  void transmit(std::uint32_t, std::span<const std::byte>, std::int64_t) override {}
  void packet_in(std::span<const std::byte>) override {}
};

Cell width_of(std::uint32_t cell) {
  const bool is_field = cell >= kFirstField && cell < kFirstField + kFields;
  return is_field ? kWidths[cell - kFirstField] : kCellBits;
}

// A program whose ingress is `code`, and which keeps the fields for later.
Image image_of(std::vector<FlatInstruction> code) {
  Image image;
  image.phv_cells = kCells;
  image.shared_cells = kFirstField + kFields;
  Header header;
  header.metadata = true;
  header.valid_cell = 1;
  header.cells = 1 + kFields;
  for (std::uint32_t f = 0; f < kFields; ++f) {
    header.fields.push_back({"f", kFirstField + f, kWidths[f]});
  }
  image.headers.push_back(header);
  image.header_plans.resize(1);
  image.field_lists = {FieldList{header.fields}};
  image.flat.ingress = 1;
  image.flat.parser = image.flat.verify_checksums = image.flat.egress =
      image.flat.update_checksums = 0;
  image.flat.code = {{.op = FlatOp::kEnd}};
  for (FlatInstruction& i : code) i.target += 1;  // behind that End
  image.flat.code.insert(image.flat.code.end(), code.begin(), code.end());
  return image;
}

std::vector<Cell> run(const Image& image, std::vector<Cell> cells) {
  Externs externs(image, 1);
  Nowhere nowhere;
  Machine machine(image, externs, nowhere, 511);
  PacketState packet;
  packet.phv = cells.data();
  machine.flat.run(image.flat.ingress, packet, {});
  cells.resize(image.shared_cells);
  return cells;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(engine_() % n); }
  // Small numbers are frequent, so that comparisons succeed and bits are 0 or 1.
  Cell number() {
    const std::uint32_t kind = below(4);
    return kind < 2 ? below(3) : kind == 2 ? low_mask(below(64)) : engine_();
  }
  std::uint16_t cell() { return static_cast<std::uint16_t>(kFirstField + below(kCells - 2)); }

 private:
  std::mt19937_64 engine_;
};

// Straight and branching code with every operation on cells. Jumps go forwards.
std::vector<FlatInstruction> random_code(Random& random, std::uint32_t length) {
  std::vector<FlatInstruction> code;
  for (std::uint32_t at = 0; at + 1 < length; ++at) {
    FlatInstruction i;
    const bool jumps = random.below(4) == 0;
    const auto first = static_cast<std::uint32_t>(jumps ? FlatOp::kJumpEqual : FlatOp::kSet);
    const auto last = static_cast<std::uint32_t>(jumps ? FlatOp::kJump : FlatOp::kLessEqualI);
    i.op = static_cast<FlatOp>(first + random.below(last - first + 1));
    i.d = random.cell();
    i.x = random.cell();
    i.y = random.cell();
    i.i = random.number();
    const bool shift = i.op == FlatOp::kShiftLeftI || i.op == FlatOp::kShiftRightI;
    if (shift) i.i %= kCellBits;
    i.mask = low_mask(static_cast<unsigned>(width_of(i.d)));
    if (random.below(4) == 0) i.mask &= random.number();
    if (i.op == FlatOp::kSet) i.i &= i.mask;
    if (jumps) i.target = at + 1 + random.below(std::min(12u, length - at - 1));
    code.push_back(i);
  }
  code.push_back({.op = FlatOp::kEnd});
  return code;
}

TEST(Optimize, RandomCodeDoesTheSame) {
  std::size_t before = 0, after = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Image plain = image_of(random_code(random, 5 + random.below(60)));
    Image optimized = plain;
    optimize(optimized);
    before += plain.flat.code.size();
    after += optimized.flat.code.size();
    for (int packet = 0; packet < 20; ++packet) {
      std::vector<Cell> cells(kCells);
      for (std::uint32_t c = 0; c < kCells; ++c) {
        cells[c] = random.number() & low_mask(static_cast<unsigned>(width_of(c)));
      }
      ASSERT_EQ(run(optimized, cells), run(plain, cells)) << "packet " << packet;
    }
  }
  EXPECT_LT(after, before * 3 / 4) << "the passes find little to do";
}

std::vector<FlatOp> operations(const Image& image) {
  std::vector<FlatOp> found;
  for (std::size_t at = image.flat.ingress; at < image.flat.code.size(); ++at) {
    found.push_back(image.flat.code[at].op);
    if (found.back() == FlatOp::kEnd) break;
  }
  return found;
}

std::vector<FlatOp> optimized(std::vector<FlatInstruction> code) {
  Image image = image_of(std::move(code));
  optimize(image);
  return operations(image);
}

constexpr std::uint16_t kField = kFirstField + 5;  // 32 bits
constexpr std::uint16_t kTemporary = kFirstField + kFields;

TEST(Optimize, ZerosSideBySideAreClearedTogether) {
  EXPECT_EQ(optimized({{.op = FlatOp::kSet, .d = 4},
                       {.op = FlatOp::kSet, .d = 2},
                       {.op = FlatOp::kSet, .d = 3},
                       {.op = FlatOp::kEnd}}),
            (std::vector{FlatOp::kClear, FlatOp::kEnd}));
}

TEST(Optimize, FieldsSideBySideAreCopiedTogether) {
  EXPECT_EQ(optimized({{.op = FlatOp::kMove, .d = 2, .x = kTemporary},
                       {.op = FlatOp::kMove, .d = 3, .x = kTemporary + 1},
                       {.op = FlatOp::kMove, .d = 4, .x = kTemporary + 2},
                       {.op = FlatOp::kEnd}}),
            (std::vector{FlatOp::kCopy, FlatOp::kEnd}));
}

TEST(Optimize, WhatNobodyReadsIsNotComputed) {
  EXPECT_EQ(optimized({{.op = FlatOp::kAddI, .d = kTemporary, .x = kField, .i = 1},
                       {.op = FlatOp::kMove, .d = kTemporary + 1, .x = kTemporary},
                       {.op = FlatOp::kEnd}}),
            (std::vector{FlatOp::kEnd}));
}

TEST(Optimize, WhatWasComputedIsUsedAgain) {
  const FlatInstruction sum{.op = FlatOp::kAdd, .d = kTemporary, .x = 4, .y = 5};
  FlatInstruction again = sum;
  again.d = kTemporary + 1;
  EXPECT_EQ(optimized({sum,
                       again,
                       {.op = FlatOp::kMultiply, .d = 9, .x = kTemporary, .y = kTemporary + 1},
                       {.op = FlatOp::kEnd}}),
            (std::vector{FlatOp::kAdd, FlatOp::kMultiply, FlatOp::kEnd}));
}

// p4c writes a chain of if-else like this over an enumeration that was just set.
TEST(Optimize, JumpsWithAKnownOutcomeDisappear) {
  EXPECT_EQ(optimized({{.op = FlatOp::kSet, .d = kTemporary, .i = 3},
                       {.op = FlatOp::kJumpNotEqualI, .x = kTemporary, .target = 3, .i = 1},
                       {.op = FlatOp::kSet, .d = kField, .i = 1},
                       {.op = FlatOp::kJumpNotEqualI, .x = kTemporary, .target = 5, .i = 3},
                       {.op = FlatOp::kSet, .d = kField, .i = 3},
                       {.op = FlatOp::kEnd}}),
            (std::vector{FlatOp::kSet, FlatOp::kEnd}));
}

TEST(Optimize, AComparisonTellsWhatFollowsIt) {
  // if (f == 5) f = f << 2: a constant.
  EXPECT_EQ(optimized({{.op = FlatOp::kJumpNotEqualI, .x = kField, .target = 2, .i = 5},
                       {.op = FlatOp::kShiftLeftI, .d = kField, .x = kField, .i = 2},
                       {.op = FlatOp::kEnd}}),
            (std::vector{FlatOp::kJumpNotEqualI, FlatOp::kSet, FlatOp::kEnd}));
}

}  // namespace
}  // namespace tiercast::engine
