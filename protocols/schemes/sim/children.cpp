#include "protocols/schemes/sim/children.h"

#include <algorithm>
#include <bit>

namespace tiercast::sim {

Children::Children(std::uint32_t max_children) : max_children_(max_children) {
  list_.reserve(max_children);
  buckets_.assign(std::bit_ceil(std::size_t{max_children} * 2), kEmpty);
}

std::size_t Children::bucket(std::uint32_t source) const {
  const std::size_t mask = buckets_.size() - 1;
  std::size_t at = (source * 0x9E3779B1u) & mask;
  while (buckets_[at] != kEmpty && list_[buckets_[at]].source != source) at = (at + 1) & mask;
  return at;
}

void Children::begin_round() {
  ++round_;
  pending_ = count();
  answered_ = 0;
}

Children::Answer Children::answer(std::uint32_t source) {
  const std::size_t at = bucket(source);
  if (buckets_[at] == kEmpty) {
    if (count() == max_children_) return Answer::kFull;
    buckets_[at] = count();
    list_.push_back({source, round_, 0});
    ++answered_;
    return Answer::kNew;
  }
  Child& child = list_[buckets_[at]];
  if (child.answered_round == round_) return Answer::kDuplicate;
  child.answered_round = round_;
  child.silent = 0;
  --pending_;
  ++answered_;
  return Answer::kKnown;
}

void Children::seen(std::uint32_t source) {
  const std::size_t at = bucket(source);
  if (buckets_[at] != kEmpty) {
    list_[buckets_[at]].silent = 0;
  } else if (count() < max_children_) {
    buckets_[at] = count();
    list_.push_back({source, round_ - 1, 0});
    ++pending_;
  }
}

void Children::remove(std::uint32_t source) {
  const std::size_t at = bucket(source);
  if (buckets_[at] == kEmpty) return;
  if (list_[buckets_[at]].answered_round != round_) --pending_;
  erase_at(buckets_[at]);
}

void Children::erase_at(std::size_t index) {
  const std::size_t mask = buckets_.size() - 1;
  std::size_t hole = bucket(list_[index].source);
  // Close the hole: move back each later element of the run unless its home bucket lies after the
  // hole.
  for (std::size_t at = (hole + 1) & mask; buckets_[at] != kEmpty; at = (at + 1) & mask) {
    const std::size_t home = (list_[buckets_[at]].source * 0x9E3779B1u) & mask;
    if (((at - home) & mask) >= ((at - hole) & mask)) {
      buckets_[hole] = buckets_[at];
      hole = at;
    }
  }
  buckets_[hole] = kEmpty;
  const std::size_t last = list_.size() - 1;
  if (index != last) {
    buckets_[bucket(list_[last].source)] = static_cast<std::uint32_t>(index);
    list_[index] = list_[last];
  }
  list_.pop_back();
}

void Children::end_round(unsigned silent_rounds) {
  for (std::size_t i = list_.size(); i-- > 0;) {
    Child& child = list_[i];
    if (child.answered_round == round_) continue;
    if (++child.silent >= silent_rounds) erase_at(i);
  }
}

void Children::clear() {
  list_.clear();
  std::fill(buckets_.begin(), buckets_.end(), kEmpty);
  pending_ = 0;
  answered_ = 0;
}

}  // namespace tiercast::sim
