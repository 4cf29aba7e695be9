#include "tests/support/allocations.h"

#include <cstdlib>
#include <new>

namespace tiercast {

namespace {

bool counting = false;
Allocations counted;

}  // namespace

Allocations allocations() { return counted; }

CountAllocations::CountAllocations(bool on) : before_(counting) { counting = on; }
CountAllocations::~CountAllocations() { counting = before_; }

}  // namespace tiercast

// Not inlined, because GCC would take the pair of malloc and free for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (tiercast::counting) {
    ++tiercast::counted.count;
    tiercast::counted.bytes += bytes;
  }
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
