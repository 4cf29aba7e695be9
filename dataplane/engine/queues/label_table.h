// A port's counts by label: a hash table that grows when a label comes for the first time, and
// never allocates for one that it knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/engine/queues/port.h"

namespace tiercast::engine {

class LabelTable {
 public:
  // The counts of a label. A caller that asks for a new label counts an `entered` at once: an
  // entry without one is free. Valid until the next call.
  LabelCounts& of(std::uint32_t label) {
    if (!entries_.empty()) {
      LabelCounts& found = entries_[place(label)];
      if (found.entered != 0) return found;
    }
    return insert(label);
  }
  // In ascending order of labels.
  std::vector<LabelCounts> all() const;

 private:
  static constexpr std::size_t kFirstEntries = 4;

  // Where the label is, or would be. At least one entry is free.
  std::size_t place(std::uint32_t label) const {
    // The multiplier is 2^32 / the golden ratio: labels in a row land far from each other.
    std::size_t at = label * 0x9e3779b1u >> shift_;
    while (entries_[at].entered != 0 && entries_[at].label != label) {
      at = (at + 1) & (entries_.size() - 1);
    }
    return at;
  }
  LabelCounts& insert(std::uint32_t label);

  std::vector<LabelCounts> entries_;  // 0, or 2^(32 - shift_)
  std::uint32_t used_ = 0;
  std::uint32_t shift_ = 32;
};

}  // namespace tiercast::engine
