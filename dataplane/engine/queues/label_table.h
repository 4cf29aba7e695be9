// A port's counts by label, in a hash table. It grows when a new label arrives, and never allocates
// for a label that it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/engine/queues/port.h"

namespace tiercast::engine {

class LabelTable {
 public:
  // The counts of a label, valid until the next call. After asking for a new label, the caller must
  // count an `entered` at once, because an entry without one is free.
  LabelCounts& of(std::uint32_t label) {
    if (!entries_.empty()) {
      LabelCounts& found = entries_[place(label)];
      if (found.entered != 0) return found;
    }
    return insert(label);
  }
  // All counts, in ascending order of labels.
  std::vector<LabelCounts> all() const;

 private:
  static constexpr std::size_t kFirstEntries = 4;

  // The entry of the label, or the free entry that it would get. At least one entry is free.
  std::size_t place(std::uint32_t label) const {
    // The multiplier is 2^32 / the golden ratio, which spreads consecutive labels.
    std::size_t at = label * 0x9e3779b1u >> shift_;
    while (entries_[at].entered != 0 && entries_[at].label != label) {
      at = (at + 1) & (entries_.size() - 1);
    }
    return at;
  }
  LabelCounts& insert(std::uint32_t label);

  std::vector<LabelCounts> entries_;  // 0 of them, or 2^(32 - shift_)
  std::uint32_t used_ = 0;
  std::uint32_t shift_ = 32;
};

}  // namespace tiercast::engine
