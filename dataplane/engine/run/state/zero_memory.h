// Memory that starts as zeros. The system provides only those pages that are written.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace tiercast::engine {

class ZeroMemory {
 public:
  explicit ZeroMemory(std::size_t bytes);  // throws std::bad_alloc
  ~ZeroMemory();
  ZeroMemory(const ZeroMemory&) = delete;
  ZeroMemory& operator=(const ZeroMemory&) = delete;

  // The next `count` objects of a type whose value is valid when all bytes are zero.
  template <class T>
  std::span<T> take(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
    return {reinterpret_cast<T*>(take_bytes(count * sizeof(T))), count};
  }
  // The bytes that take() uses for `count` objects.
  template <class T>
  static std::size_t bytes_for(std::size_t count) {
    return (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  static constexpr std::size_t kAlignment = 16;
  std::byte* take_bytes(std::size_t bytes);

  std::size_t size_;
  std::size_t used_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace tiercast::engine
