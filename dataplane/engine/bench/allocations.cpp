#include "dataplane/engine/bench/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace tiercast::bench {
namespace {

std::atomic<std::size_t> counted = 0;

}  // namespace

std::size_t allocations() { return counted; }

}  // namespace tiercast::bench

// Not inlined: GCC would see free() meet an operator new, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++tiercast::bench::counted;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
