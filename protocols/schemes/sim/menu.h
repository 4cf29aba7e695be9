// Those of SIM's rules that need no state: when a group is congested (3.1), and the limits of the
// menu (3.3).
#pragma once

#include <array>
#include <cstdint>

#include "protocols/core/core.h"

namespace tiercast::sim {

// What one feedback round says about the receivers whose top group is this one.
struct GroupSummary {
  std::uint64_t reports = 0;
  std::uint64_t congested = 0;
};

// SIM 3.1. `layers` is n_g, 1 .. 8. Only for groups with reports.
constexpr bool group_congested(Rank rank, unsigned layers, bool menu_active, GroupSummary group) {
  if (rank == 0) return group.congested > 0;
  if (rank + 1u == layers) return group.reports > 0 && group.congested == group.reports;
  if (!menu_active) return group.congested > 0;
  return 2 * group.congested > group.reports;  // a tie is not a majority
}

// The upper bounds of the cumulative rates of the middle groups 1 .. n_g-2; the others are unused.
struct Menu {
  bool active = false;
  std::array<Rate, kMaxLayers> limit{};
};

// SIM 3.3: divides [min, max] into n_g - 2 equal subranges. Active if the top group has seen
// congestion and max - min > threshold * max. With fewer than three layers there is no middle
// group, and so no menu.
Menu adapt_menu(unsigned layers, bool top_seen_congested, Rate min, Rate max, double threshold);

}  // namespace tiercast::sim
