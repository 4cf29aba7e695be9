#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tiercast::engine {

// What an unordered map of numbered objects has, in ascending order.
template <class Map>
std::vector<std::uint32_t> sorted_keys(const Map& map) {
  std::vector<std::uint32_t> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace tiercast::engine
