// A set of segment numbers below a bound: one bit each, allocated once.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace tiercast::mdpcc {

class SegmentSet {
 public:
  explicit SegmentSet(std::uint32_t bound) : words_((std::size_t{bound} + 63) / 64) {}

  // All arguments must be below the bound; an end may equal it.
  bool contains(std::uint32_t segment) const {
    return (words_[segment / 64] >> (segment % 64) & 1) != 0;
  }
  // False if it was in the set already.
  bool insert(std::uint32_t segment) {
    if (contains(segment)) return false;
    words_[segment / 64] |= bit(segment);
    ++size_;
    return true;
  }
  // Inserts those in [from, end) that are in none of `others`, which have the same bound. Returns
  // how many were not in the set. A word of 64 costs as much as one segment, since who names a
  // range need not have been honest about it.
  std::uint32_t insert(std::uint32_t from, std::uint32_t end,
                       std::initializer_list<const SegmentSet*> others = {}) {
    std::uint32_t added = 0;
    for (std::uint32_t at = from; at < end;) {
      const std::uint32_t index = at / 64;
      const std::uint32_t next = std::min(end, (index + 1) * 64);
      std::uint64_t fresh = (~std::uint64_t{0} >> (64 - (next - at))) << (at % 64);
      fresh &= ~words_[index];
      for (const SegmentSet* other : others) fresh &= ~other->words_[index];
      words_[index] |= fresh;
      added += static_cast<std::uint32_t>(std::popcount(fresh));
      at = next;
    }
    size_ += added;
    return added;
  }
  void erase(std::uint32_t segment) {
    if (!contains(segment)) return;
    words_[segment / 64] &= ~bit(segment);
    --size_;
  }
  void clear() {
    if (size_ > 0) std::fill(words_.begin(), words_.end(), 0);
    size_ = 0;
  }
  std::uint32_t size() const { return size_; }

  // The first member, or the first non-member, in [from, end); `end` if there is none.
  std::uint32_t next(std::uint32_t from, std::uint32_t end) const { return find(from, end, 0); }
  std::uint32_t next_absent(std::uint32_t from, std::uint32_t end) const {
    return find(from, end, ~std::uint64_t{0});
  }

 private:
  static std::uint64_t bit(std::uint32_t segment) { return std::uint64_t{1} << (segment % 64); }
  std::uint32_t find(std::uint32_t from, std::uint32_t end, std::uint64_t invert) const {
    if (from >= end) return end;
    std::uint64_t word = (words_[from / 64] ^ invert) & (~std::uint64_t{0} << (from % 64));
    std::uint32_t index = from / 64;
    while (word == 0) {
      if (++index * std::uint64_t{64} >= end) return end;
      word = words_[index] ^ invert;
    }
    return std::min(end, index * 64 + static_cast<std::uint32_t>(std::countr_zero(word)));
  }

  std::vector<std::uint64_t> words_;
  std::uint32_t size_ = 0;
};

}  // namespace tiercast::mdpcc
