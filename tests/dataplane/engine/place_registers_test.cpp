#include "dataplane/engine/image/place_registers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "dataplane/engine/api/program.h"
#include "tests/dataplane/engine/random_traffic.h"

namespace tiercast::engine {
namespace {

const RegisterArray& array_of(const Image& image, std::string_view name) {
  const auto found = std::find_if(image.registers.begin(), image.registers.end(),
                                  [&](const RegisterArray& array) { return array.name == name; });
  if (found == image.registers.end()) throw std::out_of_range(std::string(name));
  return *found;
}

void expect_each_cell_once(const Image& image) {
  std::vector<bool> taken(image.register_cells);
  for (const RegisterArray& array : image.registers) {
    for (std::uint64_t i = 0; i < array.size; ++i) {
      for (std::uint64_t cell = 0; cell < array.cells(); ++cell) {
        const std::uint64_t at = array.first + i * array.stride + cell;
        ASSERT_LT(at, taken.size()) << array.name;
        ASSERT_FALSE(taken[at]) << array.name << '[' << i << ']';
        taken[at] = true;
      }
    }
  }
}

TEST(PlaceRegisters, NoCellIsInTwoElements) {
  Image image;
  image.registers = {{"narrow", 5, 1}, {"none", 0, 32},     {"wide", 5, 200},
                     {"one", 1, 64},   {"widest", 7, 2048}, {"other", 5, 64}};
  place_registers(image);
  expect_each_cell_once(image);
  for (const char* program : {"tiercast", "tiercast_psa", "router", "state", "control"}) {
    SCOPED_TRACE(program);
    const auto loaded = any_program(program);
    ASSERT_FALSE(loaded->image().registers.empty());
    expect_each_cell_once(loaded->image());
  }
}

// What one data packet of a session reads and writes. Its group cache is used once a round, by
// fewer packets, and the average of a port by packets that concern no session.
TEST(PlaceRegisters, WhatIsUsedTogetherStandsTogether) {
  const auto program = any_program("tiercast");
  const Image& image = program->image();
  const RegisterArray& owner = array_of(image, "slot_owner");
  for (const char* name : {"round_request", "round_children", "round_answered", "round_strangers",
                           "round_wait_until", "rtt_largest_us", "rtt_max", "round_sent"}) {
    const RegisterArray& other = array_of(image, name);
    EXPECT_EQ(other.stride, owner.stride) << name;
    EXPECT_LT(std::max(other.first, owner.first) - std::min(other.first, owner.first), 16u) << name;
  }
  EXPECT_EQ(owner.stride, 16u) << "two lines of the cache";
  EXPECT_EQ(array_of(image, "child_source").stride, 4u);
  EXPECT_EQ(array_of(image, "request_time_us").stride, 2u);
  EXPECT_EQ(array_of(image, "avg_queue").stride, 1u);
}

}  // namespace
}  // namespace tiercast::engine
