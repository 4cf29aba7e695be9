#include "dataplane/engine/flat/flat_blocks.h"

#include <algorithm>
#include <map>

#include "dataplane/engine/flat/flat_effects.h"

namespace tiercast::engine {

namespace {

constexpr std::uint32_t kNowhere = 0xffffffff;

// Where execution may continue after the instruction at `at`, unless it ends there.
std::vector<std::uint32_t> successors(const Image& image, const FlatCode& flat, std::uint32_t at) {
  const FlatInstruction& i = flat.code[at];
  if (ends(i.op)) return {};
  if (i.op == FlatOp::kJump) return {i.target};
  if (is_conditional_jump(i.op)) return {i.target, at + 1};
  if (is_branch(i.op)) {
    const auto targets = branch_targets(image, flat, i);
    return {targets.begin(), targets.end()};
  }
  return {at + 1};
}

bool closes_block(FlatOp op) {
  return ends(op) || op == FlatOp::kJump || is_conditional_jump(op) || is_branch(op);
}

}  // namespace

std::span<const std::uint32_t> branch_targets(const Image& image, const FlatCode& flat,
                                              const FlatInstruction& branch) {
  const std::size_t choices = branch.op == FlatOp::kTable ? image.tables[branch.i].actions.size()
                                                          : image.parser_states.size();
  return std::span(flat.targets).subspan(branch.target, choices + 1);
}

FlatGraph to_blocks(const Image& image, const FlatCode& flat, std::uint32_t start) {
  // Find where blocks begin, then make the blocks.
  std::map<std::uint32_t, std::uint32_t> block_at = {{start, 0}};
  std::vector<bool> seen(flat.code.size());
  std::vector<std::uint32_t> open = {start};
  while (!open.empty()) {
    const std::uint32_t at = open.back();
    open.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    for (std::uint32_t to : successors(image, flat, at)) {
      if (closes_block(flat.code[at].op)) block_at.emplace(to, 0);
      open.push_back(to);
    }
  }
  std::vector<std::uint32_t> starts = {start};
  for (auto& [at, index] : block_at) {
    if (at == start) continue;
    index = static_cast<std::uint32_t>(starts.size());
    starts.push_back(at);
  }
  FlatGraph graph;
  graph.blocks.resize(starts.size());
  for (std::size_t b = 0; b < starts.size(); ++b) {
    FlatBlock& block = graph.blocks[b];
    for (std::uint32_t at = starts[b];; ++at) {
      if (at != starts[b] && block_at.contains(at)) {
        block.last = {.op = FlatOp::kJump};
        block.next = {block_at.at(at)};
        break;
      }
      if (!closes_block(flat.code[at].op)) {
        block.body.push_back(flat.code[at]);
        continue;
      }
      block.last = flat.code[at];
      for (std::uint32_t to : successors(image, flat, at)) block.next.push_back(block_at.at(to));
      break;
    }
  }
  return graph;
}

std::vector<std::uint32_t> in_order(const FlatGraph& graph) {
  std::vector<std::uint32_t> order;
  std::vector<bool> seen(graph.blocks.size());
  std::vector<std::pair<std::uint32_t, std::size_t>> path = {{0, 0}};  // a block and the index of
                                                                       // its next successor
  seen[0] = true;
  while (!path.empty()) {
    auto& [block, n] = path.back();
    const std::vector<std::uint32_t>& next = graph.blocks[block].next;
    if (n == next.size()) {
      order.push_back(block);
      path.pop_back();
      continue;
    }
    const std::uint32_t to = next[n++];
    if (seen[to]) continue;
    seen[to] = true;
    path.emplace_back(to, 0);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

std::uint32_t append_blocks(const FlatGraph& graph, FlatCode& flat) {
  const auto start = static_cast<std::uint32_t>(flat.code.size());
  std::vector<std::uint32_t> address(graph.blocks.size(), kNowhere);
  // Put each block as soon as possible after one that leads to it, so that few jumps are needed.
  std::vector<std::uint32_t> open = {0};
  std::vector<std::uint32_t> jumps;  // instructions whose target is still a block number
  const std::size_t first_target = flat.targets.size();
  while (!open.empty()) {
    std::uint32_t b = open.back();
    open.pop_back();
    while (b != kNowhere && address[b] == kNowhere) {
      const FlatBlock& block = graph.blocks[b];
      address[b] = static_cast<std::uint32_t>(flat.code.size());
      flat.code.insert(flat.code.end(), block.body.begin(), block.body.end());
      const bool only_jump = block.last.op == FlatOp::kJump;
      if (!only_jump) flat.code.push_back(block.last);
      if (is_branch(block.last.op)) {
        flat.code.back().target = static_cast<std::uint32_t>(flat.targets.size());
        flat.targets.insert(flat.targets.end(), block.next.begin(), block.next.end());
      } else if (is_conditional_jump(block.last.op)) {
        flat.code.back().target = block.next[0];
        jumps.push_back(static_cast<std::uint32_t>(flat.code.size() - 1));
      }
      for (std::size_t n = block.next.size(); n-- > 0;) open.push_back(block.next[n]);
      b = kNowhere;
      if (only_jump || is_conditional_jump(block.last.op)) {
        b = block.next.back();  // the block that follows
        if (address[b] != kNowhere && ends(graph.blocks[b].last.op) &&
            graph.blocks[b].body.empty()) {
          flat.code.push_back(graph.blocks[b].last);  // one instruction, so no longer than a jump
                                                      // to it
          b = kNowhere;
        } else if (address[b] != kNowhere) {
          flat.code.push_back({.op = FlatOp::kJump, .target = b});
          jumps.push_back(static_cast<std::uint32_t>(flat.code.size() - 1));
          b = kNowhere;
        }
      }
    }
  }
  for (std::uint32_t at : jumps) flat.code[at].target = address[flat.code[at].target];
  for (std::size_t t = first_target; t < flat.targets.size(); ++t) {
    flat.targets[t] = address[flat.targets[t]];
  }
  return start;
}

}  // namespace tiercast::engine
