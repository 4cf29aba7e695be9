#include "dataplane/engine/run/state/zero_memory.h"

#include <sys/mman.h>

#include <cassert>
#include <new>

namespace tiercast::engine {

// Not calloc(), which may have to clear memory from the heap page by page.
ZeroMemory::ZeroMemory(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
}

ZeroMemory::~ZeroMemory() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

std::byte* ZeroMemory::take_bytes(std::size_t bytes) {
  std::byte* const taken = memory_ + used_;
  used_ += bytes_for<std::byte>(bytes);
  assert(used_ <= size_);
  return taken;
}

}  // namespace tiercast::engine
