// A queue of pointers or small values between two threads, without locks (Lamport's).
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <vector>

namespace tiercast::sender {

// One thread pushes, one pops. Memory is taken once.
template <typename T>
class Ring {
 public:
  // Holds at least `capacity` values.
  explicit Ring(std::size_t capacity) : values_(std::bit_ceil(capacity)) {}

  // False: full.
  bool push(const T& value) {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_seen_ == values_.size()) {
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (head - tail_seen_ == values_.size()) return false;
    }
    values_[head & (values_.size() - 1)] = value;
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  // False: empty.
  bool pop(T& value) {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (head_seen_ == tail) {
      head_seen_ = head_.load(std::memory_order_acquire);
      if (head_seen_ == tail) return false;
    }
    value = values_[tail & (values_.size() - 1)];
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  bool empty() const {
    return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire);
  }

 private:
  std::vector<T> values_;
  alignas(64) std::atomic<std::size_t> head_{0};
  std::size_t tail_seen_ = 0;  // of the pushing thread
  alignas(64) std::atomic<std::size_t> tail_{0};
  std::size_t head_seen_ = 0;  // of the popping thread
};

}  // namespace tiercast::sender
