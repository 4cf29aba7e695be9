// What a piece of code did, for a trace: what it read, with the values that it saw, and what it
// changed.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/engine/packet/value.h"

namespace tiercast::engine {

struct Effects {
  struct Read {
    std::uint32_t cell;
    std::uint32_t width;  // bits
    Cell value;           // its low 64 bits
  };
  struct Write {
    std::uint32_t cell;
    std::uint32_t cells;
  };
  struct Access {
    std::uint32_t array;  // index into Image::registers
    std::uint64_t index;
    Cell value;  // its low 64 bits; of a write, the new one
    bool is_write;
  };
  struct Draw {
    Cell low, high, value;
  };

  void read(const Cell* phv, std::uint32_t cell, std::uint32_t width) {
    reads.push_back({cell, width, phv[cell]});
  }
  void write(std::uint32_t cell, std::uint32_t cells) { writes.push_back({cell, cells}); }

  std::vector<Read> reads;
  std::vector<Write> writes;
  std::vector<Access> accesses;
  std::vector<Draw> draws;
  bool reads_arguments = false;  // of its action
  bool meters = false;           // asks a meter
};

}  // namespace tiercast::engine
