#include "protocols/schemes/mlda/layering.h"

#include <algorithm>

namespace tiercast::mlda {

Layering divide(Rate r_min, Rate r_max, double alpha, unsigned max_layers, Rate min_layer) {
  Layering layering;
  layering.rate[0] = r_min;
  const Rate above = r_max * alpha - r_min;
  if (above < min_layer) return layering;  // this covers alpha r_max < r_min, too
  const double fit = std::min(above / min_layer, static_cast<double>(kMaxLayers));
  const unsigned enhancement = std::min(max_layers - 1, static_cast<unsigned>(fit));
  for (unsigned k = 1; k <= enhancement; ++k) {
    layering.rate[k] = above * (1.0 / enhancement);
  }
  layering.count = 1 + enhancement;
  return layering;
}

}  // namespace tiercast::mlda
