// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/traffic/on_off.h"

#include <algorithm>
#include <cmath>

namespace tiercast::ns3_runtime {
namespace {

// A Pareto distribution has no upper end; beyond this value (31 years in ns) any run is over.
constexpr double kMost = 1e18;

}  // namespace

std::uint64_t draw(const v1::Length& length, Rng& rng) {
  const double mean = length.has_mean_ns() ? length.mean_ns() : length.mean_packets();
  const double shape = length.shape();
  double drawn = mean;
  const double u = 1 - rng.uniform();  // in (0, 1]
  if (length.distribution() == v1::Length::EXPONENTIAL) drawn = -mean * std::log(u);
  if (length.distribution() == v1::Length::PARETO) {
    drawn = mean * (shape - 1) / shape * std::pow(u, -1 / shape);
  }
  return static_cast<std::uint64_t>(std::clamp(std::round(drawn), 1.0, kMost));
}

Rng flow_rng(std::uint64_t seed, FlowKind kind, std::uint16_t number) {
  return Rng(seed << 32 | static_cast<std::uint64_t>(kind) << 16 | number);
}

}  // namespace tiercast::ns3_runtime
