#include "protocols/schemes/mdpcc/representatives.h"

#include <algorithm>
#include <utility>

namespace tiercast::mdpcc {
namespace {

// The worse path has a lower rate, or about the same rate and a longer round trip (PROTOCOLS 6.5).
bool worse(const Representative& a, const Representative& clr) {
  return a.rate < clr.rate || (a.rate < clr.rate * 1.1 && a.rtt.srtt() > clr.rtt.srtt());
}

}  // namespace

const Representative* Representatives::find(std::uint32_t id) const {
  for (std::size_t i = 0; i < count_; ++i) {
    if (list_[i].id == id) return &list_[i];
  }
  return nullptr;
}

Representatives::Change Representatives::offer(const Representative& candidate) {
  if (count_ == 0) {
    list_[count_++] = candidate;
    return Change::kNewClr;
  }
  for (std::size_t i = 0; i < count_; ++i) {
    if (list_[i].id != candidate.id) continue;
    list_[i] = candidate;
    if (i == 0 || !worse(candidate, list_[0])) return Change::kUpdated;
    std::swap(list_[0], list_[i]);
    return Change::kNewClr;
  }
  if (worse(candidate, list_[0])) {
    const Representative old = std::exchange(list_[0], candidate);
    insert(old);
    return Change::kNewClr;
  }
  const std::size_t before = count_;
  insert(candidate);
  return count_ > before || find(candidate.id) != nullptr ? Change::kJoined : Change::kNone;
}

// Uses a free place if there is one. Otherwise it replaces a receiver with a known RTT if the
// candidate's is not known, or else the one with the highest rate, if that is higher than the
// candidate's.
void Representatives::insert(const Representative& candidate) {
  if (count_ < capacity_) {
    list_[count_++] = candidate;
    return;
  }
  std::size_t last = 0;
  for (std::size_t i = 1; i < count_; ++i) {
    const bool lower_priority =
        last == 0 || std::pair(list_[i].rtt_confirmed, list_[i].rate) >
                         std::pair(list_[last].rtt_confirmed, list_[last].rate);
    if (lower_priority) last = i;
  }
  if (last == 0) return;  // the only place is the CLR's
  const bool teaches = list_[last].rtt_confirmed && !candidate.rtt_confirmed;
  if (teaches || candidate.rate < list_[last].rate) list_[last] = candidate;
}

bool Representatives::remove(std::uint32_t id) {
  for (std::size_t i = 0; i < count_; ++i) {
    if (list_[i].id != id) continue;
    list_[i] = list_[--count_];
    if (i > 0) return false;
    elect_lowest();
    return true;
  }
  return false;
}

void Representatives::elect_lowest() {
  if (count_ == 0) return;
  const auto end = list_.begin() + static_cast<std::ptrdiff_t>(count_);
  std::iter_swap(list_.begin(),
                 std::min_element(list_.begin(), end,
                                  [](const auto& a, const auto& b) { return a.rate < b.rate; }));
}

}  // namespace tiercast::mdpcc
