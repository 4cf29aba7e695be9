// What both pacers keep to.
#pragma once

#include <cstdint>

namespace tiercast {

inline constexpr std::uint32_t kMaxLayersPaced = 1'000'000;
// A day, which keeps every due time well inside int64.
inline constexpr double kMaxIntervalNs = 86400e9;

}  // namespace tiercast
