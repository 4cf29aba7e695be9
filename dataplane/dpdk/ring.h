// A lock-free queue of pointers or small values between two threads (Lamport's).
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

namespace tiercast::dpdk {

// One thread pushes, and one pops. The ring allocates only once.
template <typename T>
class Ring {
 public:
  // Holds at least `capacity` values.
  explicit Ring(std::size_t capacity) : values_(std::bit_ceil(capacity)) {}

  std::size_t capacity() const { return values_.size(); }

  // False if the ring is full.
  bool push(const T& value) { return push(std::span(&value, 1)) == 1; }
  // Pushes as many of the first `values` as there is room for. Returns how many.
  std::size_t push(std::span<const T> values) {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_seen_ + values.size() > values_.size()) {
      tail_seen_ = tail_.load(std::memory_order_acquire);
    }
    const std::size_t n = std::min(values.size(), values_.size() - (head - tail_seen_));
    for (std::size_t i = 0; i < n; ++i) values_[(head + i) & (values_.size() - 1)] = values[i];
    if (n > 0) head_.store(head + n, std::memory_order_release);
    return n;
  }

  // False if the ring is empty.
  bool pop(T& value) { return pop(std::span(&value, 1)) == 1; }
  // Pops as many values as there are and `values` has room for. Returns how many.
  std::size_t pop(std::span<T> values) {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (head_seen_ - tail < values.size()) head_seen_ = head_.load(std::memory_order_acquire);
    const std::size_t n = std::min(values.size(), head_seen_ - tail);
    for (std::size_t i = 0; i < n; ++i) values[i] = values_[(tail + i) & (values_.size() - 1)];
    if (n > 0) tail_.store(tail + n, std::memory_order_release);
    return n;
  }

  bool empty() const {
    return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire);
  }

 private:
  std::vector<T> values_;
  alignas(64) std::atomic<std::size_t> head_{0};
  std::size_t tail_seen_ = 0;  // tail_ as last read by the pushing thread
  alignas(64) std::atomic<std::size_t> tail_{0};
  std::size_t head_seen_ = 0;  // head_ as last read by the popping thread
};

}  // namespace tiercast::dpdk
