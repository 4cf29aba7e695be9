#include "dataplane/engine/tables/match_table.h"

#include <algorithm>

#include "dataplane/engine/control/byte_values.h"
#include "dataplane/engine/tables/action_call.h"

namespace tiercast::engine {

MatchTable::MatchTable(const Image& image, const Table& layout, ProfileMembers* profile)
    : image_(image),
      layout_(layout),
      info_(image.table_infos[static_cast<std::size_t>(&layout - image.tables.data())]),
      profile_(profile),
      scratch_(std::max(1u, layout.key_words)) {
  for (const Key& key : layout.keys) {
    if (key.kind == MatchKind::kRange) has_ranges_ = true;
    if (key.kind == MatchKind::kLpm) lpm_ = &key;
  }
  has_priority_ = info_.needs_priority;
  has_special_hits_ =
      layout.direct_meter != kNone || layout.supports_timeout || layout.profile != kNone;
  is_plain_ = is_plain(layout);
  argument_cells_ = argument_cells(image, layout);
  pack_key();
  renew();
  (void)reset_default();
}

bool MatchTable::is_plain(const Table& layout) {
  return !layout.direct_counter && layout.direct_meter == kNone && !layout.supports_timeout &&
         layout.profile == kNone;
}

std::uint32_t MatchTable::argument_cells(const Image& image, const Table& layout) {
  std::uint32_t most = 0;
  for (const std::uint32_t action : layout.actions) {
    most = std::max(most, image.actions[action].argument_cells);
  }
  return most;
}

bool MatchTable::is_packed(const Table& layout) {
  if (layout.keys.empty() || layout.keys.size() > kMostPacked) return false;
  std::uint32_t bits = 0;
  for (const Key& key : layout.keys) {
    const bool fits =
        key.kind == MatchKind::kExact || (key.kind == MatchKind::kLpm && layout.keys.size() == 1);
    if (!fits || !key.mask.empty()) return false;
    bits += key.width;
  }
  return bits <= kCellBits;
}

void MatchTable::pack_key() {
  if (!is_packed(layout_)) return;
  for (std::uint32_t shift = 0; const Key& key : layout_.keys) {
    packing_[packed_fields_++] = {key.cell, shift};
    shift += key.width;
  }
}

Status MatchTable::install_initial_entries() {
  for (const TableEntry& entry : info_.initial_entries) {
    if (Status s = insert(entry); !s.ok()) return s;
  }
  return {};
}

void MatchTable::begin_with(const MatchTable& first) {
  if (!packs_key() || !is_plain_ || first.size() == 0) {
    (void)install_initial_entries();  // they are in `first`, too
    return;
  }
  first_ = &first;
  view_.tuples = first.view_.tuples;
  view_.tuple_count = first.view_.tuple_count;
  view_.arguments = first.view_.arguments;
}

void MatchTable::stop_sharing() {
  if (first_ == nullptr) return;
  first_ = nullptr;
  (void)install_initial_entries();
}

// --- Lookup ---

std::uint64_t MatchTable::hash(const Cell* key, const Cell* mask) const {
  std::uint64_t h = kEmptyHash;
  for (std::uint32_t w = 0; w < layout_.key_words; ++w) h = add_to_hash(h, key[w] & mask[w]);
  return h;
}

std::uint64_t MatchTable::hash(const Entry& entry, const Tuple& tuple) const {
  return packs_key() ? add_to_hash(kEmptyHash, packed(entry))
                     : hash(entry.key.data(), tuple.mask.data());
}

Cell MatchTable::packed(const Entry& entry) const {
  Cell key = 0;
  for (std::uint32_t f = 0; f < packed_fields_; ++f) {
    key |= entry.key[layout_.keys[f].word] << packing_[f].shift;
  }
  return key;
}

Cell MatchTable::first_word(const Entry& entry) const {
  return packs_key() ? packed(entry) : entry.key[0];
}

bool MatchTable::in_ranges(const Entry& entry, const Cell* key) const {
  for (const Key& k : layout_.keys) {
    const Cell* value = key + k.word;
    const Cell* low = entry.key.data() + k.word;
    const Cell* high = entry.mask.data() + k.word;
    if (k.kind == MatchKind::kRange) {
      const auto below = [&](const Cell* a, const Cell* b) {
        for (std::uint32_t w = k.words(); w-- > 0;) {
          if (a[w] != b[w]) return a[w] < b[w];
        }
        return false;
      };
      if (below(value, low) || below(high, value)) return false;
    } else {
      for (std::uint32_t w = 0; w < k.words(); ++w) {
        if ((value[w] & high[w]) != low[w]) return false;
      }
    }
  }
  return true;
}

const MatchTable::Slot& MatchTable::find_packed(const Cell* phv) const {
  Cell key = phv[packing_[0].cell];
  if (packed_fields_ > 1) key |= phv[packing_[1].cell] << packing_[1].shift;
  return find_slot(view_, key);
}

MatchTable::Entry* MatchTable::lookup(const Cell* phv) {
  if (size() == 0) return nullptr;
  if (packs_key()) {
    const Slot& slot = find_packed(phv);
    return slot.entry == kFree ? nullptr : holder().entries_[slot.entry].get();
  }
  Cell* key = scratch_.data();
  for (const Key& k : layout_.keys) {
    for (std::uint32_t w = 0; w < k.words(); ++w) {
      key[k.word + w] = phv[k.cell + w];
      if (!k.mask.empty()) key[k.word + w] &= k.mask[w];
    }
  }
  if (has_ranges_) {
    for (std::uint32_t index : ranges_) {
      if (in_ranges(*entries_[index], key)) return entries_[index].get();
    }
    return nullptr;
  }
  Entry* best = nullptr;
  const std::uint32_t words = layout_.key_words;
  for (const auto& tuple : tuples_) {
    const Cell* mask = tuple->mask.data();
    const Slot* slots = tuple->slots.data();
    const std::size_t last = tuple->slots.size() - 1;
    const Cell first_word = key[0] & mask[0];
    for (std::size_t at = hash(key, mask) & last; slots[at].entry != kFree; at = (at + 1) & last) {
      if (slots[at].key != first_word || slots[at].entry == kDeleted) continue;
      Entry* entry = entries_[slots[at].entry].get();
      bool equal = true;
      for (std::uint32_t w = 1; w < words; ++w) equal &= (key[w] & mask[w]) == entry->key[w];
      if (!equal) continue;
      if (!has_priority_) return entry;
      if (best == nullptr || entry->priority > best->priority) best = entry;
    }
  }
  return best;
}

MatchTable::Outcome MatchTable::apply(const Cell* phv, std::uint32_t bytes) {
  Entry* entry = nullptr;
  const Cell* arguments = nullptr;
  if (packs_key()) {
    const Slot& slot = find_packed(phv);
    if (slot.entry == kFree) return {view_.default_action, false, view_.default_arguments};
    arguments = arguments_of(slot.entry);
    if (is_plain_) return {slot.action, true, arguments};
    entry = entries_[slot.entry].get();
  } else {
    entry = lookup(phv);
    if (entry == nullptr) return {view_.default_action, false, view_.default_arguments};
    arguments = entry->arguments.data();
  }
  if (layout_.direct_counter) {
    ++entry->counter.packets;
    entry->counter.bytes += bytes;
  }
  return {entry->action, true, arguments, has_special_hits_ ? entry : nullptr};
}

// --- Changes ---

unsigned MatchTable::prefix_of(const std::vector<Cell>& mask) const {
  unsigned bits = 0;
  if (lpm_ == nullptr) return 0;
  for (std::uint32_t w = 0; w < lpm_->words(); ++w) {
    bits += static_cast<unsigned>(__builtin_popcountll(mask[lpm_->word + w]));
  }
  return bits;
}

void MatchTable::put(Tuple& tuple, std::uint32_t index) {
  const Entry& entry = *entries_[index];
  const std::size_t last = tuple.slots.size() - 1;
  std::size_t slot = hash(entry, tuple) & last;
  while (tuple.slots[slot].entry != kFree) slot = (slot + 1) & last;
  tuple.slots[slot] = {first_word(entry), index, entry.action};
  ++tuple.used;
}

void MatchTable::rebuild(Tuple& tuple, std::size_t slots) {
  const std::vector<Slot> old = std::move(tuple.slots);
  tuple.slots.assign(slots, Slot{});
  tuple.used = 0;
  for (const Slot& slot : old) {
    if (slot.entry != kFree && slot.entry != kDeleted) put(tuple, slot.entry);
  }
}

void MatchTable::add_to_tuple(std::uint32_t index) {
  const Entry& entry = *entries_[index];
  auto found = std::find_if(tuples_.begin(), tuples_.end(),
                            [&](const auto& t) { return t->mask == entry.mask; });
  if (found == tuples_.end()) {
    auto tuple = std::make_unique<Tuple>();
    tuple->mask = entry.mask;
    tuple->prefix_length = prefix_of(entry.mask);
    tuple->slots.assign(8, Slot{});
    found = std::find_if(tuples_.begin(), tuples_.end(),
                         [&](const auto& t) { return t->prefix_length < tuple->prefix_length; });
    found = tuples_.insert(found, std::move(tuple));
  }
  Tuple& tuple = **found;
  ++tuple.live;
  if ((tuple.used + 1) * 2 > tuple.slots.size()) {
    std::size_t slots = 8;
    while (slots < tuple.live * 4) slots *= 2;
    rebuild(tuple, slots);
  }
  put(tuple, index);
}

void MatchTable::remove_from_tuple(std::uint32_t index) {
  Tuple& tuple = tuple_of(index);
  if (--tuple.live == 0) {
    std::erase_if(tuples_, [&](const auto& t) { return t.get() == &tuple; });
    return;
  }
  slot_of(tuple, index).entry = kDeleted;
}

MatchTable::Tuple& MatchTable::tuple_of(std::uint32_t index) const {
  return **std::find_if(tuples_.begin(), tuples_.end(),
                        [&](const auto& t) { return t->mask == entries_[index]->mask; });
}

MatchTable::Slot& MatchTable::slot_of(Tuple& tuple, std::uint32_t index) const {
  const std::size_t last = tuple.slots.size() - 1;
  std::size_t slot = hash(*entries_[index], tuple) & last;
  while (tuple.slots[slot].entry != index) slot = (slot + 1) & last;
  return tuple.slots[slot];
}

void MatchTable::renew() {
  if (!packs_key()) return;
  static const Slot kFreeSlot;  // the only slot of a table without entries
  tuple_views_.clear();
  for (const auto& tuple : tuples_) {
    tuple_views_.push_back({tuple->mask[0], tuple->slots.data(), tuple->slots.size() - 1});
  }
  if (tuples_.empty()) tuple_views_.push_back({0, &kFreeSlot, 0});
  // Both fields of an exact key are in one cell, and nothing masks them.
  if (layout_.keys[0].kind == MatchKind::kExact) tuple_views_[0].mask = ~Cell{0};
  view_.tuples = tuple_views_.data();
  view_.tuple_count = tuple_views_.size();
  all_arguments_.resize(entries_.size() * argument_cells_);
  view_.arguments = all_arguments_.data();
}

void MatchTable::set_default(std::uint32_t action, std::vector<Cell> arguments) {
  default_cells_ = std::move(arguments);
  view_.default_arguments = default_cells_.data();
  view_.default_action = action;
}

void MatchTable::renew_entry(std::uint32_t index) {
  if (!packs_key()) return;
  Entry& entry = *entries_[index];
  slot_of(tuple_of(index), index).action = entry.action;
  renew();
  std::copy(entry.arguments.begin(), entry.arguments.end(),
            all_arguments_.data() + std::size_t{index} * argument_cells_);
  entry.arguments = {};
}

void MatchTable::sort_ranges() {
  ranges_.resize(entries_.size());
  for (std::uint32_t i = 0; i < ranges_.size(); ++i) ranges_[i] = i;
  std::stable_sort(ranges_.begin(), ranges_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return entries_[a]->priority > entries_[b]->priority;
  });
}

std::uint32_t MatchTable::find(const Entry& wanted) const {
  const auto same = [&](const Entry& entry) {
    return entry.key == wanted.key && entry.mask == wanted.mask &&
           entry.priority == wanted.priority;
  };
  if (has_ranges_) {
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
      if (same(*entries_[i])) return i;
    }
    return kFree;
  }
  const MatchTable& holds = holder();
  for (const auto& tuple : holds.tuples_) {
    if (tuple->mask != wanted.mask) continue;
    const std::size_t last = tuple->slots.size() - 1;
    for (std::size_t slot = hash(wanted, *tuple) & last; tuple->slots[slot].entry != kFree;
         slot = (slot + 1) & last) {
      const std::uint32_t index = tuple->slots[slot].entry;
      if (index != kDeleted && same(*holds.entries_[index])) return index;
    }
  }
  return kFree;
}

Status MatchTable::insert(const TableEntry& entry, std::int64_t now_ns) {
  if (layout_.keys.empty()) {
    return {ErrorCode::kInvalidArgument,
            "table " + layout_.name + " has no key: only its default action can be set"};
  }
  stop_sharing();
  auto added = std::make_unique<Entry>();
  if (Status s = to_key(entry, *added); !s.ok()) return s;
  if (Status s = set_action(*added, entry); !s.ok()) return s;
  if (Status s = check_options(entry); !s.ok()) return s;
  if (find(*added) != kFree) {
    return {ErrorCode::kAlreadyExists,
            "table " + layout_.name + " already has " + entry_text(entry)};
  }
  if (entries_.size() >= layout_.max_size) {
    return {ErrorCode::kResourceExhausted,
            "table " + layout_.name + " is full: its size is " + std::to_string(layout_.max_size)};
  }
  if (profile_ != nullptr) {
    if (Status s = profile_->bind(entry, added->binding); !s.ok()) return s;
  }
  if (entry.counter) added->counter = *entry.counter;
  added->meter.configure(entry.meter, now_ns);
  set_timeout(*added, entry.idle_timeout_ns, now_ns);
  const auto index = static_cast<std::uint32_t>(entries_.size());
  entries_.push_back(std::move(added));
  if (has_ranges_) {
    sort_ranges();
  } else {
    add_to_tuple(index);
  }
  renew_entry(index);
  return {};
}

Result<std::uint32_t> MatchTable::locate(const TableEntry& entry) const {
  Entry wanted;
  if (Status s = to_key(entry, wanted); !s.ok()) return s;
  const std::uint32_t index = find(wanted);
  if (index == kFree) {
    return Status{ErrorCode::kNotFound, "table " + layout_.name + " has no " + entry_text(entry)};
  }
  return index;
}

Status MatchTable::modify(const TableEntry& entry, std::int64_t now_ns) {
  stop_sharing();
  const auto index = locate(entry);
  if (!index.ok()) return index.status();
  Entry& found = *entries_[*index];
  Entry changed;
  if (Status s = set_action(changed, entry); !s.ok()) return s;
  if (Status s = check_options(entry); !s.ok()) return s;
  if (profile_ != nullptr) {
    if (Status s = profile_->bind(entry, changed.binding); !s.ok()) return s;
    profile_->release(found.binding);
  }
  found.action = changed.action;
  found.arguments = std::move(changed.arguments);
  found.call = std::move(changed.call);
  found.member = changed.member;
  found.group = changed.group;
  found.binding = changed.binding;
  if (entry.counter) found.counter = *entry.counter;
  found.meter.configure(entry.meter, now_ns);
  set_timeout(found, entry.idle_timeout_ns, now_ns);
  renew_entry(*index);
  return {};
}

Status MatchTable::remove(const TableEntry& entry) {
  stop_sharing();
  const auto located = locate(entry);
  if (!located.ok()) return located.status();
  const std::uint32_t index = *located;
  const auto last = static_cast<std::uint32_t>(entries_.size() - 1);
  if (profile_ != nullptr) profile_->release(entries_[index]->binding);
  if (!has_ranges_) {
    // The last entry moves to the place of the removed one.
    remove_from_tuple(index);
    if (index != last) {
      remove_from_tuple(last);
      std::swap(entries_[index], entries_[last]);
      add_to_tuple(index);
      if (packs_key()) {
        std::copy_n(arguments_of(last), argument_cells_,
                    all_arguments_.data() + std::size_t{index} * argument_cells_);
      }
    }
    entries_.pop_back();
    renew();
  } else {
    std::swap(entries_[index], entries_[last]);
    entries_.pop_back();
    sort_ranges();
  }
  return {};
}

std::vector<TableEntry> MatchTable::read(std::int64_t now_ns) const {
  std::vector<TableEntry> all;
  for (const auto& entry : holder().entries_) all.push_back(describe(*entry, now_ns));
  return all;
}

Result<TableEntry> MatchTable::read(const TableEntry& entry, std::int64_t now_ns) const {
  const auto index = locate(entry);
  if (!index.ok()) return index.status();
  return describe(*holder().entries_[*index], now_ns);
}

Status MatchTable::write_counter(const TableEntry& entry, CounterValue value) {
  if (!layout_.direct_counter) {
    return {ErrorCode::kInvalidArgument, "table " + layout_.name + " has no direct counter"};
  }
  const auto index = locate(entry);
  if (!index.ok()) return index.status();
  entries_[*index]->counter = value;
  return {};
}

Status MatchTable::write_meter(const TableEntry& entry, const std::optional<MeterConfig>& config,
                               std::int64_t now_ns) {
  if (layout_.direct_meter == kNone) {
    return {ErrorCode::kInvalidArgument, "table " + layout_.name + " has no direct meter"};
  }
  if (config) {
    if (Status s = check_meter("table " + layout_.name, *config); !s.ok()) return s;
  }
  const auto index = locate(entry);
  if (!index.ok()) return index.status();
  entries_[*index]->meter.configure(config, now_ns);
  return {};
}

// --- Time-outs ---

namespace {

// The time at which an entry is reported if nothing hits it until then.
std::int64_t expiry_ns(const MatchTable::Entry& entry) {
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max() - 1;
  const std::int64_t since_ns = std::max(entry.last_hit_ns, entry.reported_ns);
  const std::int64_t timeout_ns = std::max(entry.idle_timeout_ns, MatchTable::kMinTimeout);
  return since_ns > kLast - timeout_ns ? kLast : since_ns + timeout_ns;
}

}  // namespace

void MatchTable::set_timeout(Entry& entry, std::int64_t timeout_ns, std::int64_t now_ns) {
  entry.idle_timeout_ns = timeout_ns;
  entry.last_hit_ns = now_ns;
  if (timeout_ns == 0) return;
  next_expiry_ns_ = std::min(next_expiry_ns_, std::max(expiry_ns(entry), next_scan_ns_));
}

std::vector<TableEntry> MatchTable::take_expired(std::int64_t now_ns) {
  std::vector<TableEntry> all;
  std::int64_t next_ns = kNever;
  for (const auto& entry : entries_) {
    if (entry->idle_timeout_ns == 0) continue;
    if (expiry_ns(*entry) <= now_ns) {
      all.push_back(describe(*entry, now_ns));
      entry->reported_ns = now_ns;
    }
    next_ns = std::min(next_ns, expiry_ns(*entry));
  }
  next_scan_ns_ = now_ns + kScanSpacing * static_cast<std::int64_t>(entries_.size());
  next_expiry_ns_ = next_ns == kNever ? kNever : std::max(next_ns, next_scan_ns_);
  return all;
}

Status MatchTable::set_default(const ActionCall& call) {
  if (layout_.const_default) {
    return {ErrorCode::kPermissionDenied,
            "the default action of table " + layout_.name + " is constant"};
  }
  ResolvedCall resolved;
  Status s = resolve_call(image_, "table " + layout_.name, layout_.actions, call, resolved);
  if (!s.ok()) return s;
  set_default(resolved.index, std::move(resolved.arguments));
  default_call_ = std::move(resolved.canonical);
  return {};
}

Status MatchTable::reset_default() {
  set_default(layout_.default_action, layout_.default_arguments);
  default_call_ = {};
  if (view_.default_action == kNone) return {};
  const Action& action = image_.actions[layout_.actions[view_.default_action]];
  default_call_.name = action.name;
  for (const auto& p : action.parameters) {
    default_call_.arguments.push_back(to_bytes(default_cells_.data() + p.cell, p.width));
  }
  return {};
}

Result<ActionCall> MatchTable::read_default() const {
  if (view_.default_action == kNone) {
    return Status{ErrorCode::kNotFound, "table " + layout_.name + " has no default action"};
  }
  return default_call_;
}

}  // namespace tiercast::engine
