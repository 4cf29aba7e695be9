// Which branches decide whether a node of a control runs: the nodes on which it is control
// dependent (Ferrante, Ottenstein and Warren 1987). A node is so on a branch if one way out of the
// branch always leads to the node, and another one may avoid it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

class ControlDependence {
 public:
  // Of all nodes of the image. Takes time and memory of the order of their number squared.
  explicit ControlDependence(const Image& image);

  // The branches, conditions and tables, that decide whether `node` runs, nearest last.
  std::span<const std::uint32_t> of(std::uint32_t node) const { return branches_[node]; }

 private:
  std::vector<std::vector<std::uint32_t>> branches_;
};

// Whether an action may end its control.
bool may_exit(const Image& image, const Action& action);

}  // namespace tiercast::engine
