#include "protocols/pacer/pacer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "protocols/pacer/limits.h"

namespace tiercast {

void Pacer::Occupied::set(std::uint32_t index) {
  words[index / 64] |= 1ull << (index % 64);
  summary |= 1ull << (index / 64);
}

void Pacer::Occupied::clear(std::uint32_t index) {
  words[index / 64] &= ~(1ull << (index % 64));
  if (words[index / 64] == 0) summary &= ~(1ull << (index / 64));
}

std::uint32_t Pacer::Occupied::first_from(std::uint32_t index) const {
  if (index >= kSlots) return kNone;
  const std::uint32_t word = index / 64;
  const std::uint64_t here = words[word] & (~0ull << (index % 64));
  if (here != 0) return word * 64 + static_cast<std::uint32_t>(std::countr_zero(here));
  if (word == 63) return kNone;
  const std::uint64_t later = summary & (~0ull << (word + 1));
  if (later == 0) return kNone;
  const auto next = static_cast<std::uint32_t>(std::countr_zero(later));
  return next * 64 + static_cast<std::uint32_t>(std::countr_zero(words[next]));
}

Pacer::Pacer(std::uint32_t layers) {
  if (layers < 1 || layers > kMaxLayersPaced) {
    throw ConfigError("pacer: layers = " + std::to_string(layers) +
                      " is out of range: valid 1 to " + std::to_string(kMaxLayersPaced));
  }
  entries_.resize(layers);
  slots_.resize(std::size_t{kLevels} * kSlots);
}

// A slot of level l covers 2^(12 l) ticks. An entry is put at the highest level at which its tick
// differs from current_tick_. So any occupied slot of a lower level is earlier than all those of
// higher ones.
void Pacer::insert(Layer layer) {
  Entry& entry = entries_[layer];
  const auto due_tick =
      static_cast<std::uint64_t>(std::max<std::int64_t>(entry.due_ns, 0)) >> kTickShift;
  const std::uint64_t tick = std::max(due_tick, current_tick_);
  const std::uint64_t differing = tick ^ current_tick_;
  const unsigned level =
      differing == 0
          ? 0
          : std::min((63u - static_cast<unsigned>(std::countl_zero(differing))) / kLevelBits,
                     kLevels - 1);
  const auto index = static_cast<std::uint32_t>(tick >> (level * kLevelBits)) & (kSlots - 1);
  Slot& slot = slots_[level * kSlots + index];
  entry.slot = level * kSlots + index;
  entry.next = kNone;
  entry.previous = slot.tail;
  if (slot.tail == kNone) {
    slot.head = layer;
    slot.min_due_ns = entry.due_ns;
    occupied_[level].set(index);
  } else {
    entries_[slot.tail].next = layer;
    slot.min_due_ns = std::min(slot.min_due_ns, entry.due_ns);
  }
  slot.tail = layer;
}

void Pacer::remove(Layer layer) {
  Entry& entry = entries_[layer];
  Slot& slot = slots_[entry.slot];
  (entry.previous == kNone ? slot.head : entries_[entry.previous].next) = entry.next;
  (entry.next == kNone ? slot.tail : entries_[entry.next].previous) = entry.previous;
  if (slot.head == kNone) occupied_[entry.slot / kSlots].clear(entry.slot % kSlots);
  entry.slot = kNone;
}

std::uint32_t Pacer::first_slot() const {
  for (unsigned level = 0; level < kLevels; ++level) {
    const auto from =
        static_cast<std::uint32_t>(current_tick_ >> (level * kLevelBits)) & (kSlots - 1);
    const std::uint32_t index = occupied_[level].first_from(from);
    if (index != kNone) return level * kSlots + index;
  }
  return kNone;
}

// Moves current_tick_ to the start of a slot above level 0, and the slot's entries down by one or
// more levels.
void Pacer::cascade(std::uint32_t slot_number) {
  const unsigned shift = slot_number / kSlots * kLevelBits;
  const std::uint64_t above = current_tick_ >> (shift + kLevelBits) << (shift + kLevelBits);
  current_tick_ = above | static_cast<std::uint64_t>(slot_number % kSlots) << shift;
  Layer layer = slots_[slot_number].head;
  while (layer != kNone) {
    const Layer next = entries_[layer].next;
    remove(layer);
    insert(layer);
    layer = next;
  }
}

void Pacer::set_rate(Time now, Layer layer, Rate rate, std::uint32_t packet_bytes) {
  if (layer >= entries_.size()) return;
  Entry& entry = entries_[layer];
  const double bytes_per_second = rate.bytes_per_second();
  if (!(bytes_per_second > 0)) {
    if (entry.interval_ns > 0) {
      remove(layer);
      entry.interval_ns = 0;
    }
    return;
  }
  const double interval_ns =
      std::clamp(std::max<double>(packet_bytes, 1) / bytes_per_second * 1e9, 1.0, kMaxIntervalNs);
  if (entry.interval_ns > 0) {
    const std::int64_t wait_ns = entry.due_ns - now.ns();
    if (wait_ns > 0) {
      remove(layer);
      const double wait =
          (static_cast<double>(wait_ns) + entry.due_fraction) * (interval_ns / entry.interval_ns);
      entry.due_ns = now.ns() + static_cast<std::int64_t>(wait);
      entry.due_fraction = wait - std::floor(wait);
      insert(layer);
    }
    entry.interval_ns = interval_ns;
    return;
  }
  entry.interval_ns = interval_ns;
  entry.due_ns = now.ns();
  if (entry.departed) {
    entry.due_ns = std::max(entry.due_ns, entry.last_ns + static_cast<std::int64_t>(interval_ns));
  }
  entry.due_fraction = 0;
  entry.in_backlog = false;
  insert(layer);
}

Time Pacer::next_departure() const {
  const std::uint32_t first = first_slot();
  if (first == kNone) return Time::never();
  const Slot& slot = slots_[first];
  return Time::nanoseconds(first < kSlots ? entries_[slot.head].due_ns : slot.min_due_ns);
}

std::optional<Pacer::Departure> Pacer::pop(Time now) {
  for (;;) {
    const std::uint32_t first = first_slot();
    if (first == kNone) return std::nullopt;
    if (first >= kSlots) {
      // Always cascade when the bound is reached, so that next_departure() becomes exact.
      if (slots_[first].min_due_ns > now.ns()) return std::nullopt;
      cascade(first);
      continue;
    }
    const Layer layer = slots_[first].head;
    Entry& entry = entries_[layer];
    if (entry.due_ns > now.ns()) return std::nullopt;
    remove(layer);
    current_tick_ = (current_tick_ & ~std::uint64_t{kSlots - 1}) | first;
    const Departure departure{layer, Time::nanoseconds(entry.due_ns)};

    const double step = entry.due_fraction + entry.interval_ns;
    const double whole = std::floor(step);
    std::int64_t next_ns = entry.due_ns + static_cast<std::int64_t>(whole);
    entry.due_fraction = step - whole;
    static_assert(kMaxBurst == 2, "one packet that left another overdue, and that one");
    if (entry.in_backlog) {
      next_ns = now.ns() + static_cast<std::int64_t>(entry.interval_ns);
      entry.due_fraction = 0;
      entry.in_backlog = false;
    } else {
      entry.in_backlog = next_ns <= now.ns();
    }
    entry.due_ns = next_ns;
    entry.last_ns = now.ns();
    entry.departed = true;
    insert(layer);
    return departure;
  }
}

}  // namespace tiercast
