#include "dataplane/engine/queues/label_table.h"

#include <algorithm>
#include <utility>

namespace tiercast::engine {

LabelCounts& LabelTable::insert(std::uint32_t label) {
  if (4 * (used_ + 1) > 3 * entries_.size()) {
    const std::size_t size = entries_.empty() ? kFirstEntries : 2 * entries_.size();
    const std::vector<LabelCounts> before = std::exchange(entries_, std::vector<LabelCounts>(size));
    shift_ = 32 - static_cast<std::uint32_t>(__builtin_ctzll(size));
    for (const LabelCounts& counts : before) {
      if (counts.entered != 0) entries_[place(counts.label)] = counts;
    }
  }
  ++used_;
  LabelCounts& entry = entries_[place(label)];
  entry.label = label;
  return entry;
}

std::vector<LabelCounts> LabelTable::all() const {
  std::vector<LabelCounts> used;
  for (const LabelCounts& counts : entries_) {
    if (counts.entered != 0) used.push_back(counts);
  }
  std::sort(used.begin(), used.end(),
            [](const LabelCounts& a, const LabelCounts& b) { return a.label < b.label; });
  return used;
}

}  // namespace tiercast::engine
