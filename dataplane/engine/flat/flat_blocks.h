// Flat code as a graph of blocks that passes can change, and the way back to code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

// A run of instructions without jumps, then one that decides what follows.
struct FlatBlock {
  std::vector<FlatInstruction> body;
  // kJump, a conditional jump, kTable, kRunState, kEnd, kExit or kReject.
  FlatInstruction last;
  // Successor blocks. For a jump: its target. For a conditional jump: its target, then the block
  // that follows. For a branch: its targets in order.
  std::vector<std::uint32_t> next;
};

// One part of the flat code, such as ingress. Block 0 is where it starts.
struct FlatGraph {
  std::vector<FlatBlock> blocks;
};

// Where a branch may lead; the last is where it leads if no action or state is chosen.
std::span<const std::uint32_t> branch_targets(const Image& image, const FlatCode& flat,
                                              const FlatInstruction& branch);

FlatGraph to_blocks(const Image& image, const FlatCode& flat, std::uint32_t start);

// Appends the reachable blocks. Returns the address where they start.
std::uint32_t append_blocks(const FlatGraph& graph, FlatCode& flat);

// The reachable blocks. Each comes before those that it leads to, except in loops.
std::vector<std::uint32_t> in_order(const FlatGraph& graph);

}  // namespace tiercast::engine
