// A small seeded generator (SplitMix64): the same seed gives the same numbers on every machine.
#pragma once

#include <cstdint>

namespace tiercast {

class Rng {
 public:
  explicit constexpr Rng(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ull;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  // Uniform in [0, 1).
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // Uniform in [0, bound); bound >= 1. The bias is below bound / 2^64.
  constexpr std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

 private:
  std::uint64_t state_;
};

}  // namespace tiercast
