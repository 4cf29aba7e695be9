// Replaces this program's operator new by one that counts.
#include <cstdlib>
#include <new>

#include "protocols/bench/group.h"

namespace {
bool counting = false;
std::uint64_t calls = 0;
std::size_t bytes = 0;

void* allocate(std::size_t size, std::size_t alignment) {
  if (counting) {
    ++calls;
    bytes += size;
  }
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  if (void* p = std::aligned_alloc(alignment, rounded > 0 ? rounded : alignment)) return p;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace tiercast::bench {

void Allocations::count(bool on) { counting = on; }
std::uint64_t Allocations::calls() { return ::calls; }
std::size_t Allocations::bytes() { return ::bytes; }

}  // namespace tiercast::bench
