#include "protocols/schemes/sim/menu.h"

namespace tiercast::sim {

Menu adapt_menu(unsigned layers, bool top_seen_congested, Rate min, Rate max, double threshold) {
  Menu menu;
  const Rate range = max - min;
  if (layers < 3 || !top_seen_congested || !(range > max * threshold)) return menu;
  menu.active = true;
  for (unsigned k = 1; k + 2 <= layers; ++k) {
    menu.limit[k] = min + range * (static_cast<double>(k) / (layers - 2));  // SIM 3.3
  }
  return menu;
}

}  // namespace tiercast::sim
