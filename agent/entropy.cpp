#include "agent/entropy.h"

#include <random>

namespace tiercast::agent {

std::uint64_t entropy() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

}  // namespace tiercast::agent
