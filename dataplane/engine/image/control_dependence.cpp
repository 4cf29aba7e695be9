#include "dataplane/engine/image/control_dependence.h"

#include <algorithm>

namespace tiercast::engine {
namespace {

// A set of nodes, as bits.
class NodeSet {
 public:
  NodeSet(std::size_t nodes, bool full) : words_((nodes + 63) / 64, full ? ~std::uint64_t{0} : 0) {}
  bool has(std::uint32_t node) const { return words_[node / 64] >> node % 64 & 1; }
  void add(std::uint32_t node) { words_[node / 64] |= std::uint64_t{1} << node % 64; }
  void keep(const NodeSet& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] &= other.words_[w];
  }
  bool operator==(const NodeSet&) const = default;

 private:
  std::vector<std::uint64_t> words_;
};

// The nodes that may follow; `end` stands for the end of the control.
std::vector<std::uint32_t> followers(const Image& image, const Node& node, std::uint32_t end) {
  std::vector<std::uint32_t> next;
  bool exits = false;
  switch (node.kind) {
    case Node::Kind::kCondition: next = {node.if_true, node.if_false}; break;
    case Node::Kind::kAction:
      next = {node.if_true};
      exits = may_exit(image, image.actions[node.index]);
      break;
    case Node::Kind::kTable: {
      const Table& table = image.tables[node.index];
      next = table.next;
      if (table.default_action == kNone) next.push_back(table.next_without_action);
      for (const std::uint32_t action : table.actions) {
        exits |= may_exit(image, image.actions[action]);
      }
      break;
    }
  }
  for (std::uint32_t& node_or_none : next) node_or_none = std::min(node_or_none, end);
  if (exits) next.push_back(end);
  std::sort(next.begin(), next.end());
  next.erase(std::unique(next.begin(), next.end()), next.end());
  return next;
}

}  // namespace

bool may_exit(const Image& image, const Action& action) {
  return std::any_of(image.code.begin() + action.code.begin, image.code.begin() + action.code.end,
                     [](const Instruction& i) { return i.op == Op::kExit; });
}

ControlDependence::ControlDependence(const Image& image) : branches_(image.nodes.size()) {
  const auto end = static_cast<std::uint32_t>(image.nodes.size());
  std::vector<std::vector<std::uint32_t>> next;
  for (const Node& node : image.nodes) next.push_back(followers(image, node, end));
  // Post-dominators: what every way from a node to the end passes, itself included. The largest
  // solution, by iteration from all of them.
  std::vector<NodeSet> passes(end, NodeSet(end + 1, true));
  passes.emplace_back(end + 1, false);
  passes[end].add(end);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::uint32_t node = end; node-- > 0;) {
      NodeSet now(end + 1, true);
      for (const std::uint32_t follower : next[node]) now.keep(passes[follower]);
      now.add(node);
      if (now == passes[node]) continue;
      passes[node] = std::move(now);
      changed = true;
    }
  }
  for (std::uint32_t branch = 0; branch < end; ++branch) {
    if (next[branch].size() < 2) continue;
    for (std::uint32_t node = 0; node < end; ++node) {
      if (node == branch || passes[branch].has(node)) continue;
      const bool leads = std::any_of(next[branch].begin(), next[branch].end(),
                                     [&](std::uint32_t f) { return passes[f].has(node); });
      if (leads) branches_[node].push_back(branch);
    }
  }
}

}  // namespace tiercast::engine
