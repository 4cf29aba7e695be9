// The program's state that outlives packets, except its tables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/engine/control/control.h"
#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/state/zero_memory.h"
#include "dataplane/engine/tables/meter.h"

namespace tiercast::engine {

struct Externs {
  Externs(const Image& image, std::uint64_t seed);
  ZeroMemory memory;  // holds the registers and counters
  struct Registers {
    Cell* first;
    std::uint64_t size, stride;
    Cell& operator[](std::uint64_t index) const { return first[index * stride]; }
  };
  std::span<Cell> register_cells;
  std::vector<Registers> registers;  // of each array
  std::vector<std::span<CounterValue>> counters;
  std::vector<std::vector<Meter>> meters;
  // Members of each value set, as values and masks laid out like a parser state's key.
  struct KeyMatch {
    std::vector<Cell> value, mask;
    ValueSetMember given;
  };
  std::vector<std::vector<KeyMatch>> value_sets;
  std::vector<CrcParameters> crc;  // of each calculation
  std::uint64_t random_state;
  std::int64_t now_ns = 0;  // to be set before a packet is processed
};

}  // namespace tiercast::engine
