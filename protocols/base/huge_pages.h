// Memory for large tables in 2 MB pages where the machine provides them (Linux: madvise), so that
// random lookups do not miss the TLB.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace tiercast {

// An allocator for the standard containers. Falls back to normal pages.
template <typename T>
struct HugePages {
  using value_type = T;

  HugePages() = default;
  template <typename U>
  HugePages(const HugePages<U>&) {}

  T* allocate(std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    if (bytes < kPage) {
      return static_cast<T*>(::operator new(bytes, std::align_val_t{kCacheLine}));
    }
    const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
    void* const memory = ::operator new(whole, std::align_val_t{kPage});
    madvise(memory, whole, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t n) {
    ::operator delete(memory, std::align_val_t{n * sizeof(T) < kPage ? kCacheLine : kPage});
  }
  bool operator==(const HugePages&) const = default;

 private:
  static constexpr std::size_t kCacheLine = 64;
  static constexpr std::size_t kPage = 2 << 20;
};

}  // namespace tiercast
