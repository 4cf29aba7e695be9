// Which cells native code clears for a new packet and copies to a replica, of small programs: a
// header with two fields, of which one is moved into a third cell that leaves with the packet.
#include "dataplane/engine/native/live_cells.h"

#include <gtest/gtest.h>

namespace tiercast::engine {
namespace {

// Apart, since runs join cells that are near to each other.
constexpr std::uint16_t kValid = 2, kField = 8, kUnread = 14;  // of the header
constexpr std::uint16_t kOrigin = 20, kDirty = 26;
constexpr std::uint16_t kOtherValid = 32, kOtherField = 38;
constexpr std::uint16_t kResult = 44, kScrap = 50;
constexpr std::uint32_t kCells = 51;

constexpr FlatInstruction kReads{.op = FlatOp::kMove, .d = kResult, .x = kField};
constexpr FlatInstruction kReadsOther{.op = FlatOp::kMove, .d = kResult, .x = kOtherField};

FlatInstruction past_if(FlatOp op, std::uint16_t cell, Cell value, std::uint32_t target) {
  return {.op = op, .x = cell, .target = target, .i = value};
}

Image image_of(std::vector<FlatInstruction> ingress, std::vector<FlatInstruction> egress) {
  Image image;
  image.phv_cells = image.shared_cells = kCells;
  Header header;
  header.valid_cell = kValid;
  header.cells = kUnread + 1 - kValid;
  Header other;  // a variable of the program, which does not leave
  other.valid_cell = kOtherValid;
  other.cells = kOtherField + 1 - kOtherValid;
  image.headers = {header, other};
  image.header_plans.resize(2);
  image.header_plans[0].plain = true;
  image.header_plans[0].valid_cell = kValid;
  image.header_plans[0].origin_cell = kOrigin;
  image.header_plans[0].dirty_cell = kDirty;
  image.deparser_order = {0};
  image.field_lists = {FieldList{{{"result", kResult, 32}}}};
  image.flat.code = {{.op = FlatOp::kEnd}};
  image.flat.parser = image.flat.verify_checksums = image.flat.update_checksums = 0;
  const auto append = [&](std::vector<FlatInstruction> code) {
    const auto start = static_cast<std::uint32_t>(image.flat.code.size());
    for (FlatInstruction& i : code) i.target += start;
    code.push_back({.op = FlatOp::kEnd});
    image.flat.code.insert(image.flat.code.end(), code.begin(), code.end());
    return start;
  };
  image.flat.ingress = append(std::move(ingress));
  image.flat.egress = append(std::move(egress));
  return image;
}

bool has(const std::vector<CellRun>& runs, std::uint32_t cell) {
  for (const CellRun& run : runs) {
    if (cell >= run.first && cell < run.first + run.count) return true;
  }
  return false;
}

bool clears(std::vector<FlatInstruction> ingress, std::uint32_t cell) {
  return has(find_native_live_cells(image_of(std::move(ingress), {})).cleared, cell);
}

TEST(LiveCells, AFieldThatIsReadOfAnyHeaderIsCleared) {
  EXPECT_TRUE(clears({kReadsOther}, kOtherField));
  EXPECT_FALSE(clears({}, kOtherField));
}

// Each way to ask: the read is skipped if the header is not there.
TEST(LiveCells, AFieldThatIsReadOfAValidHeaderIsNot) {
  EXPECT_FALSE(clears({past_if(FlatOp::kJumpEqualI, kOtherValid, 0, 2), kReadsOther}, kOtherField));
  EXPECT_FALSE(
      clears({past_if(FlatOp::kJumpNotEqualI, kOtherValid, 1, 2), kReadsOther}, kOtherField));
}

TEST(LiveCells, AFieldThatIsReadOfAnInvalidHeaderIsCleared) {
  EXPECT_TRUE(clears({past_if(FlatOp::kJumpEqualI, kOtherValid, 1, 2), kReadsOther}, kOtherField));
  EXPECT_TRUE(
      clears({past_if(FlatOp::kJumpNotEqualI, kOtherValid, 0, 2), kReadsOther}, kOtherField));
}

TEST(LiveCells, AQuestionForAnotherValueSaysNothing) {
  EXPECT_TRUE(clears({past_if(FlatOp::kJumpEqualI, kOtherValid, 2, 2), kReadsOther}, kOtherField));
}

// A header that is made valid holds what nobody wrote.
TEST(LiveCells, AHeaderThatTheProgramAddsIsCleared) {
  EXPECT_TRUE(clears({{.op = FlatOp::kSet, .d = kOtherValid, .i = 1},
                      past_if(FlatOp::kJumpEqualI, kOtherValid, 0, 3),
                      kReadsOther},
                     kOtherField));
}

// As in an assignment of headers: the fields follow if the source is valid.
TEST(LiveCells, AHeaderThatIsAssignedIsAsValidAsItsSource) {
  const std::vector<FlatInstruction> assigns = {
      {.op = FlatOp::kMove, .d = kOtherValid, .x = kValid},
      past_if(FlatOp::kJumpEqualI, kValid, 0, 3),
      {.op = FlatOp::kMove, .d = kOtherField, .x = kField},
      past_if(FlatOp::kJumpEqualI, kOtherValid, 0, 5),
      kReadsOther};
  EXPECT_FALSE(clears(assigns, kOtherField));
  EXPECT_FALSE(clears(assigns, kField));
  auto without_field = assigns;
  without_field[2].d = kScrap;
  EXPECT_TRUE(clears(without_field, kOtherField));
}

// What egress reads behind a question is copied with a header that is there, also if it leaves as
// it came; of a header that does not leave, always.
TEST(LiveCells, WhatEgressReadsOfAValidHeaderIsCopied) {
  const LiveCells leaving =
      find_native_live_cells(image_of({}, {past_if(FlatOp::kJumpEqualI, kValid, 0, 2), kReads}));
  ASSERT_EQ(leaving.headers.size(), 1u);
  EXPECT_TRUE(has(leaving.headers[0].valid, kField));
  EXPECT_FALSE(has(leaving.headers[0].valid, kUnread));
  EXPECT_FALSE(has(leaving.copied, kField));
  const LiveCells staying = find_native_live_cells(
      image_of({}, {past_if(FlatOp::kJumpEqualI, kOtherValid, 0, 2), kReadsOther}));
  EXPECT_TRUE(has(staying.copied, kOtherField));
}

}  // namespace
}  // namespace tiercast::engine
