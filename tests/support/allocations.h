// Counts what operator new hands out, for tests of code that must not allocate. Link
// tiercast_allocations, which replaces operator new in the whole program.
#pragma once

#include <cstddef>

namespace tiercast {

struct Allocations {
  std::size_t count = 0;
  std::size_t bytes = 0;
};

// The allocations so far, made while counting was on.
Allocations allocations();

// Switches counting on or off in a scope. It is off at first.
class CountAllocations {
 public:
  explicit CountAllocations(bool on = true);
  ~CountAllocations();
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;

 private:
  bool before_;
};

}  // namespace tiercast
