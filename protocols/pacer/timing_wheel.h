// Finds which of very many entries is due next: a hierarchical timing wheel with slots of 64 ns,
// for callers that poll.
//
// Entries are numbers 0 .. size-1, and each is scheduled at most once. Every operation costs the
// same with ten entries as with 100,000, and no single call moves many entries: those far ahead
// come down to the finest level a few at a time, before they are needed. All memory is allocated at
// construction. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocols/base/huge_pages.h"

namespace tiercast {

// What the wheel stores for an entry. The owner's entry derives from it, so that both share a cache
// line.
struct WheelNode {
  std::int64_t due_ns = 0;
  std::uint32_t next = 0xffffffff;
  std::uint32_t previous = 0xffffffff;
  std::uint32_t slot = 0xffffffff;  // level * slots + index; all ones: not scheduled
};

template <typename Entry>
class TimingWheel {
 public:
  using Index = std::uint32_t;
  static constexpr Index kNone = 0xffffffff;
  static constexpr unsigned kTickShift = 6;  // a slot of the finest level is 64 ns wide
  static constexpr unsigned kMaxWalk = 16;   // most steps to an entry's place within a tick

  explicit TimingWheel(std::uint32_t size) : entries_(size), slots_(kLevels * kSlots) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }
  Entry& operator[](Index index) { return entries_[index]; }
  const Entry& operator[](Index index) const { return entries_[index]; }
  bool scheduled(Index index) const { return entries_[index].slot != kNone; }
  bool empty() const { return count_ == 0; }

  // `index` must not be scheduled. Entries of one tick are kept in the order of their due times as
  // long as finding the place takes at most kMaxWalk steps; equal ones are kept in order of
  // insertion. An overdue entry queues behind those that wait already, and before those still to
  // come.
  void insert(std::int64_t now_ns, Index index, std::int64_t due_ns) {
    if (count_++ == 0) restart(tick_of(now_ns));
    entries_[index].due_ns = due_ns;
    place(index, now_ns);
  }

  void remove(Index index) {
    --count_;
    unlink(index);
  }

  // The entry with the earliest due time, if that is not after `now_ns`; otherwise kNone. The entry
  // stays scheduled. If more than kMaxWalk entries share a tick, the result may be another one of
  // that tick, so an entry that is due by then is found up to 64 ns late. A `now_ns` before an
  // earlier one finds fewer entries and does no other harm.
  Index first(std::int64_t now_ns) {
    if (count_ == 0) return kNone;
    const Index waiting = slots_[current_ & kMask].head;
    if (waiting != kNone && current_ >> kRatioBits < ready_[0]) {
      return entries_[waiting].due_ns <= now_ns ? waiting : kNone;
    }
    return search(now_ns);
  }

  // Reschedules `index`, which first() has just returned. Like remove() and insert().
  void reschedule_first(std::int64_t now_ns, Index index, std::int64_t due_ns) {
    Entry& entry = entries_[index];
    entry.due_ns = due_ns;
    Slot& from = slots_[entry.slot];
    from.head = entry.next;
    if (from.head != kNone) {
      entries_[from.head].previous = kNone;
    } else {
      from.tail = kNone;
      clear(0, entry.slot);
    }
    const std::uint64_t tick = tick_of(due_ns);
    if (tick >> kRatioBits > ready_[0] || tick < current_) [[unlikely]] {
      --counts_[0];
      place(index, now_ns);
      return;
    }
    const auto at = static_cast<std::uint32_t>(tick & kMask);
    Slot& to = slots_[at];
    if (to.tail == kNone) {
      to.head = to.tail = index;
      entry.slot = at;
      entry.next = entry.previous = kNone;
      set(0, at);
    } else if (entries_[to.tail].due_ns <= due_ns) {
      entry.slot = at;
      entry.next = kNone;
      entry.previous = to.tail;
      entries_[to.tail].next = index;
      to.tail = index;
    } else {
      --counts_[0];
      place(index, now_ns);
    }
  }

  // Brings at most `steps` entries down a level before they are needed. To be called about once for
  // each entry taken, and when there is nothing else to do. Without it, first() does all of this
  // work at once when the time has come.
  void prepare(unsigned steps) {
    if (current_ < prepared_) return;
    bool done = true;
    for (unsigned level = 0; level + 1 < kLevels; ++level) {
      const std::uint64_t wanted = (current_ >> (level + 1) * kRatioBits) + kAhead;
      while (ready_[level] < wanted && complete_above(level)) {
        Slot& slot = slots_[(level + 1) * kSlots + (ready_[level] & kMask)];
        if (slot.head == kNone) {
          ++ready_[level];
          continue;
        }
        if (steps == 0) return;
        --steps;
        const Index index = slot.head;
        const Index following = entries_[index].next;
        if (following != kNone) __builtin_prefetch(&entries_[following], 1);
        unlink(index);
        place(index, entries_[index].due_ns);
      }
      done &= ready_[level] >= wanted;
    }
    if (done) prepared_ = ((current_ >> kRatioBits) + 1) << kRatioBits;
  }

  // The latest time to call first() next (within a crowded tick, see first()). Where that time is
  // near, it is the exact due time. The largest int64 if nothing is scheduled.
  std::int64_t bound_ns() const {
    std::int64_t bound = INT64_MAX;
    if (count_ == 0) return bound;
    for (unsigned level = 0; level < kLevels; ++level) {
      if (counts_[level] == 0) continue;
      const std::uint64_t from = current_ >> level * kRatioBits;
      const std::uint64_t unit = from + distance(level, from & kMask);
      // Entries that have not yet come down to the finest level are due in unit ready_[0] or later.
      const std::int64_t start =
          level == 0
              ? entries_[slots_[unit & kMask].head].due_ns
              : static_cast<std::int64_t>(
                    std::max(unit << level * kRatioBits, ready_[0] << kRatioBits) << kTickShift);
      bound = std::min(bound, start);
    }
    return bound;
  }

  // Prefetches the entry after `index` in its slot.
  void prefetch_next(Index index) const {
    const Index next = entries_[index].next;
    if (next != kNone) __builtin_prefetch(&entries_[next], 1);
  }

 private:
  // A slot of level l covers 2^(10 l) ticks, and a level has 2^13 slots. The levels therefore span
  // 64 ns x 2^13 = 0.5 ms, then 0.5 s, 9 min and 6.5 days. Entries farther away wait in the last
  // slot.
  static constexpr unsigned kLevels = 4;
  static constexpr unsigned kSlotBits = 13;
  static constexpr unsigned kRatioBits = 10;
  static constexpr std::uint32_t kSlots = 1u << kSlotBits;
  static constexpr std::uint32_t kMask = kSlots - 1;
  static constexpr unsigned kAhead = 2;  // units of the next level to bring down in advance; a
                                         // level holds 8
  static constexpr std::uint64_t kNoTick = ~0ull;

  struct Slot {
    Index head = kNone;
    Index tail = kNone;
  };

  // Which slots of a level hold entries.
  struct Occupied {
    std::array<std::uint64_t, kSlots / 4096> summary{};
    std::array<std::uint64_t, kSlots / 64> words{};
  };

  // first() if nothing is left in the slot of current_.
  Index search(std::int64_t now_ns) {
    const std::uint64_t horizon = tick_of(now_ns);
    for (;;) {
      const std::uint64_t tick = first_tick();
      if (tick != kNoTick && tick >> kRatioBits < ready_[0]) {
        if (tick > horizon) {
          current_ = std::max(current_, horizon);
          return kNone;
        }
        current_ = tick;
        const Index head = slots_[tick & kMask].head;
        return entries_[head].due_ns <= now_ns ? head : kNone;
      }
      if (ready_[0] > horizon >> kRatioBits) {
        current_ = std::max(current_, horizon);
        return kNone;
      }
      pull(0, horizon >> kRatioBits);
    }
  }

  static std::uint64_t tick_of(std::int64_t ns) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0)) >> kTickShift;
  }

  void restart(std::uint64_t tick) {
    current_ = std::max(current_, tick);
    prepared_ = 0;
    for (unsigned level = 0; level + 1 < kLevels; ++level) {
      ready_[level] = (current_ >> (level + 1) * kRatioBits) + 1;
    }
  }

  // True if all entries before the end of unit ready_[level] have left the levels above level + 1.
  bool complete_above(unsigned level) const {
    return level + 2 >= kLevels || ready_[level] >> kRatioBits < ready_[level + 1];
  }

  void place(Index index, std::int64_t now_ns) {
    Entry& entry = entries_[index];
    const std::uint64_t due_tick = tick_of(entry.due_ns);
    const std::uint64_t tick = std::max(due_tick, current_);
    unsigned level = 0;
    std::uint64_t unit = tick;
    // unit >> kRatioBits is the same tick in units of the level above.
    while (level + 1 < kLevels && unit >> kRatioBits > ready_[level]) {
      unit >>= kRatioBits;
      ++level;
    }
    if (level + 1 == kLevels) {
      unit = std::min(unit, (current_ >> level * kRatioBits) + kSlots - 1);
    }
    const auto at = static_cast<std::uint32_t>(unit & kMask);
    entry.slot = level * kSlots + at;
    ++counts_[level];
    Slot& slot = slots_[entry.slot];
    if (slot.head == kNone) {
      slot.head = slot.tail = index;
      entry.next = entry.previous = kNone;
      set(level, at);
      return;
    }
    Index before = slot.tail;
    if (level == 0) {
      // Overdue entries are sorted by the present time instead of their due time.
      const std::int64_t by_ns = due_tick == tick ? entry.due_ns : now_ns;
      for (unsigned walk = 0; walk < kMaxWalk && before != kNone && entries_[before].due_ns > by_ns;
           ++walk) {
        before = entries_[before].previous;
      }
    }
    entry.previous = before;
    entry.next = before == kNone ? slot.head : entries_[before].next;
    (before == kNone ? slot.head : entries_[before].next) = index;
    (entry.next == kNone ? slot.tail : entries_[entry.next].previous) = index;
  }

  void unlink(Index index) {
    Entry& entry = entries_[index];
    const unsigned level = entry.slot / kSlots;
    const std::uint32_t at = entry.slot % kSlots;
    Slot& slot = slots_[entry.slot];
    (entry.previous == kNone ? slot.head : entries_[entry.previous].next) = entry.next;
    (entry.next == kNone ? slot.tail : entries_[entry.next].previous) = entry.previous;
    if (slot.head == kNone) clear(level, at);
    --counts_[level];
    entry.slot = kNone;
  }

  void set(unsigned level, std::uint32_t at) {
    occupied_[level].words[at / 64] |= 1ull << at % 64;
    occupied_[level].summary[at / 4096] |= 1ull << at / 64 % 64;
  }
  void clear(unsigned level, std::uint32_t at) {
    Occupied& occupied = occupied_[level];
    occupied.words[at / 64] &= ~(1ull << at % 64);
    if (occupied.words[at / 64] == 0) occupied.summary[at / 4096] &= ~(1ull << at / 64 % 64);
  }

  // Slots from `at` to the first occupied one, wrapping around. The level must hold an entry.
  std::uint32_t distance(unsigned level, std::uint64_t from) const {
    const Occupied& occupied = occupied_[level];
    const auto at = static_cast<std::uint32_t>(from);
    const std::uint64_t here = occupied.words[at / 64] >> at % 64;
    if (here != 0) return static_cast<std::uint32_t>(std::countr_zero(here));
    std::uint32_t word = at / 64;
    constexpr auto kParts = static_cast<std::uint32_t>(kSlots / 4096);
    for (std::uint32_t step = 0; step <= kParts; ++step) {
      const std::uint32_t part = (word / 64 + step) % kParts;
      std::uint64_t bits = occupied.summary[part];
      if (step == 0) bits &= word % 64 == 63 ? 0 : ~0ull << (word % 64 + 1);
      if (bits == 0) continue;
      word = part * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
      const std::uint32_t found =
          word * 64 + static_cast<std::uint32_t>(std::countr_zero(occupied.words[word]));
      return (found - at) & kMask;
    }
    return 0;
  }

  std::uint64_t first_tick() const {
    return counts_[0] == 0 ? kNoTick : current_ + distance(0, current_ & kMask);
  }

  // Brings the next unit of level + 1 down, but none after `limit`, or skips units without entries.
  // Everything before that unit has been taken already. To be repeated until ready_[level] is far
  // enough.
  void pull(unsigned level, std::uint64_t limit) {
    while (!complete_above(level)) pull(level + 1, limit >> kRatioBits);
    bool below_is_empty = true;
    for (unsigned l = 0; l <= level; ++l) below_is_empty &= counts_[l] == 0;
    if (below_is_empty) {
      std::uint64_t end = limit + 1;
      if (level + 2 < kLevels) end = std::min(end, ready_[level + 1] << kRatioBits);
      if (counts_[level + 1] > 0) {
        end = std::min(end, ready_[level] + distance(level + 1, ready_[level] & kMask));
      }
      ready_[level] = std::max(ready_[level], end);
    }
    // A skip ends where the level above has not been brought down; that must be done first.
    if (ready_[level] > limit || !complete_above(level)) return;
    current_ = std::max(current_, ready_[level] << (level + 1) * kRatioBits);
    for (unsigned l = 0; l < level; ++l) {
      ready_[l] = std::max(ready_[l], current_ >> (l + 1) * kRatioBits);
    }
    Slot& slot = slots_[(level + 1) * kSlots + (ready_[level] & kMask)];
    Index index = slot.head;
    while (index != kNone) {
      const Index following = entries_[index].next;
      unlink(index);
      place(index, entries_[index].due_ns);
      index = following;
    }
    ++ready_[level];
  }

  std::vector<Entry, HugePages<Entry>> entries_;
  std::vector<Slot, HugePages<Slot>> slots_;
  std::array<Occupied, kLevels> occupied_;
  std::array<std::uint32_t, kLevels> counts_{};
  std::uint32_t count_ = 0;
  std::uint64_t current_ = 0;  // tick; all entries are at or after it
  // Entries of units (of level + 1) before this one have all come down to `level`. Those of this
  // unit may be on either level.
  std::array<std::uint64_t, kLevels - 1> ready_{1, 1, 1};
  std::uint64_t prepared_ = 0;  // prepare() has nothing to do before this tick
};

}  // namespace tiercast
