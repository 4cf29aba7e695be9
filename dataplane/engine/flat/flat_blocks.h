// Flat code as a graph of blocks, in which passes can change it, and back.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// Instructions without a jump between them, then one that leads on.
struct FlatBlock {
  std::vector<FlatInstruction> body;
  // kJump, a conditional jump, kTable, kRunState, kEnd, kExit or kReject.
  FlatInstruction last;
  // Blocks: of a jump where it leads to, of a conditional jump then what follows it, of a branch
  // its targets in their order.
  std::vector<std::uint32_t> next;
};

// One part of the flat code, such as ingress. Block 0 is its beginning.
struct FlatGraph {
  std::vector<FlatBlock> blocks;
};

FlatGraph to_blocks(const Image& image, const FlatCode& flat, std::uint32_t start);

// Appends the blocks that can be reached; returns where they start.
std::uint32_t append_blocks(const FlatGraph& graph, FlatCode& flat);

// Reachable blocks, each before those that it leads to, loops apart.
std::vector<std::uint32_t> in_order(const FlatGraph& graph);

}  // namespace tiercast::engine
