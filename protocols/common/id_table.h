// Maps members' identification numbers to slots 0 .. capacity-1, which index what a core keeps for
// each member. Every operation takes O(1) and allocates nothing after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tiercast {

class IdTable {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  // `capacity`: 1 .. 2^30.
  explicit IdTable(std::uint32_t capacity) : ids_(capacity) {
    std::size_t buckets = 2;
    while (buckets < std::size_t{2} * capacity) buckets *= 2;
    buckets_.assign(buckets, kNone);
    free_.reserve(capacity);
    clear();
  }

  // The slot of `id`; kNone if it is not known.
  std::uint32_t find(std::uint32_t id) const { return buckets_[bucket(id)]; }

  // Adds `id`, which must not be known yet, and returns its slot; kNone if the table is full.
  std::uint32_t insert(std::uint32_t id) {
    if (free_.empty()) return kNone;
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    ids_[slot] = id;
    buckets_[bucket(id)] = slot;
    return slot;
  }

  // No effect if `id` is not known.
  void erase(std::uint32_t id) {
    std::size_t hole = bucket(id);
    if (buckets_[hole] == kNone) return;
    free_.push_back(buckets_[hole]);
    // Linear probing: move a later entry into the hole if the hole would hide it.
    const std::size_t mask = buckets_.size() - 1;
    for (std::size_t at = (hole + 1) & mask; buckets_[at] != kNone; at = (at + 1) & mask) {
      const std::size_t home = hash(ids_[buckets_[at]]);
      if (((at - home) & mask) >= ((at - hole) & mask)) {
        buckets_[hole] = buckets_[at];
        hole = at;
      }
    }
    buckets_[hole] = kNone;
  }

  void clear() {
    buckets_.assign(buckets_.size(), kNone);
    free_.clear();
    for (std::uint32_t slot = capacity(); slot > 0; --slot) free_.push_back(slot - 1);
  }

  std::uint32_t capacity() const { return static_cast<std::uint32_t>(ids_.size()); }
  std::uint32_t size() const { return capacity() - static_cast<std::uint32_t>(free_.size()); }

 private:
  std::size_t hash(std::uint32_t id) const {
    // Fibonacci hashing spreads neighbouring numbers. Forged ones need no further defence than the
    // bound on their count.
    return (id * 0x9E3779B97F4A7C15ull >> 32) & (buckets_.size() - 1);
  }
  // The bucket of `id`, or the empty one where it would go. At least half of the buckets are empty.
  std::size_t bucket(std::uint32_t id) const {
    std::size_t at = hash(id);
    while (buckets_[at] != kNone && ids_[buckets_[at]] != id) at = (at + 1) & (buckets_.size() - 1);
    return at;
  }

  std::vector<std::uint32_t> ids_;      // by slot
  std::vector<std::uint32_t> buckets_;  // slots
  std::vector<std::uint32_t> free_;     // slots
};

}  // namespace tiercast
