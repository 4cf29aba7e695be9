#include "dataplane/engine/image/place_registers.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "dataplane/engine/image/control_dependence.h"

namespace tiercast::engine {
namespace {

constexpr std::uint64_t kLine = 8;  // cells of a cache line
// The branches of more take too long to find; all arrays of one size then stand together.
constexpr std::size_t kMostNodes = 1 << 12;

using Branches = std::set<std::uint32_t>;

// Of each array, the branches that decide whether it is used.
std::vector<Branches> find_branches(const Image& image) {
  std::vector<Branches> of_array(image.registers.size());
  if (image.nodes.size() > kMostNodes) return of_array;
  const ControlDependence dependence(image);
  const auto note = [&](std::uint32_t node, CodeRange code) {
    for (std::uint32_t at = code.begin; at < code.end; ++at) {
      const Instruction& i = image.code[at];
      if (i.op != Op::kRegisterRead && i.op != Op::kRegisterWrite) continue;
      const auto branches = dependence.of(node);
      of_array[i.a].insert(branches.begin(), branches.end());
    }
  };
  for (std::uint32_t n = 0; n < image.nodes.size(); ++n) {
    const Node& node = image.nodes[n];
    switch (node.kind) {
      case Node::Kind::kAction: note(n, image.actions[node.index].code); break;
      case Node::Kind::kCondition: note(n, node.condition); break;
      case Node::Kind::kTable:
        for (const std::uint32_t action : image.tables[node.index].actions) {
          note(n, image.actions[action].code);
        }
    }
  }
  return of_array;
}

std::uint64_t round_up(std::uint64_t cells) { return (cells + kLine - 1) / kLine * kLine; }

}  // namespace

void place_registers(Image& image) {
  const std::vector<Branches> branches = find_branches(image);
  std::map<std::pair<std::uint64_t, Branches>, std::vector<RegisterArray*>> together;
  for (std::size_t i = 0; i < image.registers.size(); ++i) {
    RegisterArray& array = image.registers[i];
    together[{array.size, branches[i]}].push_back(&array);
  }
  for (const auto& [key, arrays] : together) {
    std::uint64_t stride = 0;
    for (RegisterArray* array : arrays) {
      array->first = image.register_cells + stride;
      stride += array->cells();
    }
    // No element crosses more lines than it must.
    stride = stride < kLine ? std::bit_ceil(stride) : round_up(stride);
    for (RegisterArray* array : arrays) array->stride = stride;
    image.register_cells += round_up(key.first * stride);
  }
}

}  // namespace tiercast::engine
