// The entries of one table, and their lookup.
//
// Entries with the same mask share a hash table (tuple space search: Srinivasan, Suri, Varghese,
// SIGCOMM 1999). An exact table has one hash table. An lpm table has one per prefix length, tried
// from the longest. A ternary table has one per mask, and the matching entry with the highest
// priority wins. Entries with a range are compared one by one. Lookups never allocate; changes may.
//
// Most tables are exact and have one or two fields, or one lpm field. Such a key is packed into one
// cell and stored in the hash table beside the action, and the arguments of all entries are stored
// together. A lookup then touches few places in memory. This matters because none of them is in the
// processor's cache while packets go through many switches. TableView (image/native_abi.h) is what
// such a lookup reads; native code does it by itself.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/engine/control/control.h"
#include "dataplane/engine/control/status.h"
#include "dataplane/engine/image/image.h"
#include "dataplane/engine/image/native_abi.h"
#include "dataplane/engine/tables/meter.h"
#include "dataplane/engine/tables/profile_members.h"

namespace tiercast::engine {

class alignas(64) MatchTable {
 public:
  struct Entry {
    std::vector<Cell> key;   // masked; for a range: the low bound
    std::vector<Cell> mask;  // for a range: the high bound
    std::int32_t priority = 0;
    std::uint32_t action = 0;     // index into Table::actions
    std::vector<Cell> arguments;  // in a packed table they are in all_arguments_
    CounterValue counter;
    ActionCall call;  // as the control plane gave it, with arguments in canonical form
    std::optional<std::uint32_t> member, group;  // of the table's action profile
    ProfileMembers::Binding binding;             // the part of the profile that it refers to
    Meter meter;
    std::int64_t idle_timeout_ns = 0;
    std::int64_t last_hit_ns = 0;  // in tables that support time-outs; until the first hit, when it
                                   // was written
    std::int64_t reported_ns = 0;  // when it was last reported as idle
  };

  // All arguments must outlive the MatchTable. install_initial_entries() installs those that
  // the program begins with and returns an error if one is wrong. profile: the table's action
  // profile, or nullptr.
  MatchTable(const Image& image, const Table& layout, ProfileMembers* profile = nullptr);
  Status install_initial_entries();
  // Begins with the entries of another table of this layout, which holds those of the program and
  // outlives this one. Where packets do not change entries, both share them until this one is
  // written to.
  void begin_with(const MatchTable& first);

  // nullptr on a miss.
  Entry* lookup(const Cell* phv);
  // What the table does to a packet of `bytes` bytes. The direct counter counts the packet.
  struct Outcome {
    std::uint32_t action;  // index into Table::actions; kNone: a miss and no default action
    bool hit;
    const Cell* arguments;
    Entry* special = nullptr;  // a hit that the caller must pass to TableHits::complete()
  };
  Outcome apply(const Cell* phv, std::uint32_t bytes);
  // Whether view() has the table's entries: the key is packed.
  static bool is_packed(const Table& layout);
  // Of the action with the most.
  static std::uint32_t argument_cells(const Image& image, const Table& layout);
  // Whether a hit only selects its action.
  static bool is_plain(const Table& layout);
  // Stays where it is while the table exists.
  const TableView& view() const { return view_; }
  const ProfileMembers* profile() const { return profile_; }
  // kNone: the table has no default action.
  std::uint32_t default_action() const { return view_.default_action; }
  const Cell* default_arguments() const { return default_cells_.data(); }

  Status insert(const TableEntry& entry, std::int64_t now_ns = 0);
  Status modify(const TableEntry& entry, std::int64_t now_ns = 0);
  Status remove(const TableEntry& entry);
  std::vector<TableEntry> read(std::int64_t now_ns) const;
  Result<TableEntry> read(const TableEntry& entry, std::int64_t now_ns) const;
  Status write_counter(const TableEntry& entry, CounterValue value);
  Status write_meter(const TableEntry& entry, const std::optional<MeterConfig>& config,
                     std::int64_t now_ns);
  Status set_default(const ActionCall& call);
  Status reset_default();
  Result<ActionCall> read_default() const;
  std::size_t size() const { return holder().entries_.size(); }
  TableEntry describe(const Entry& entry, std::int64_t now_ns) const;

  // Time-outs. next_expiry_ns(): when an entry may next have been idle for too long; kNever if no
  // entry has a time-out. take_expired(): the entries that have been idle for too long since they
  // were last hit or taken. It scans all entries, so it does so at most once every kScanSpacing per
  // entry. A time-out below kMinTimeout counts as kMinTimeout.
  static constexpr std::int64_t kMinTimeout = 10'000'000;  // ns
  static constexpr std::int64_t kScanSpacing = 1'000;      // ns
  std::int64_t next_expiry_ns() const { return next_expiry_ns_; }
  std::vector<TableEntry> take_expired(std::int64_t now_ns);

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  static constexpr std::uint32_t kFree = TableView::kFree;
  static constexpr std::uint32_t kDeleted = TableView::kDeleted;
  using Slot = TableView::Slot;
  // One field of a packed key.
  struct PackedField {
    std::uint32_t cell = 0;
    std::uint32_t shift = 0;
  };
  static constexpr std::size_t kMostPacked = 2;
  struct Tuple {
    std::vector<Cell> mask;
    unsigned prefix_length = 0;  // of the lpm field
    std::vector<Slot> slots;     // their number is a power of two
    std::size_t used = 0;        // slots that are not kFree
    std::size_t live = 0;
  };

  const MatchTable& holder() const { return first_ == nullptr ? *this : *first_; }
  // To be called before entries change.
  void stop_sharing();
  Status to_key(const TableEntry& entry, Entry& out) const;
  Status key_field(const Key& key, const KeyField& info, const FieldMatch& match, Cell* value,
                   Cell* mask) const;
  Status set_action(Entry& out, const TableEntry& entry) const;
  Status check_options(const TableEntry& entry) const;
  void set_timeout(Entry& entry, std::int64_t timeout_ns, std::int64_t now_ns);
  std::uint32_t find(const Entry& wanted) const;  // entry index, or kFree
  Result<std::uint32_t> locate(const TableEntry& entry) const;
  void put(Tuple& tuple, std::uint32_t index);
  void rebuild(Tuple& tuple, std::size_t slots);
  void add_to_tuple(std::uint32_t index);
  void remove_from_tuple(std::uint32_t index);
  Tuple& tuple_of(std::uint32_t index) const;              // the entry must be there
  Slot& slot_of(Tuple& tuple, std::uint32_t index) const;  // the same
  void sort_ranges();
  std::uint64_t hash(const Cell* key, const Cell* mask) const;
  void pack_key();
  bool packs_key() const { return packed_fields_ != 0; }
  Cell packed(const Entry& entry) const;
  // Where the search for an entry begins, and the part of its key that its slot holds.
  std::uint64_t hash(const Entry& entry, const Tuple& tuple) const;
  Cell first_word(const Entry& entry) const;
  // In a packed table: the slot that holds the packet's key, or a free one.
  const Slot& find_packed(const Cell* phv) const;
  const Cell* arguments_of(std::uint32_t entry) const {
    return view_.arguments + std::size_t{entry} * argument_cells_;
  }
  // After any change to a packed table: updates what lookups read of a new or changed entry, and
  // where lookups begin.
  void renew_entry(std::uint32_t index);
  void renew();
  void set_default(std::uint32_t action, std::vector<Cell> arguments);
  bool in_ranges(const Entry& entry, const Cell* key) const;
  unsigned prefix_of(const std::vector<Cell>& mask) const;
  std::string entry_text(const TableEntry& entry) const;

  // What a lookup in a packed table reads, kept together.
  std::array<PackedField, kMostPacked> packing_{};
  std::uint32_t packed_fields_ = 0;  // 0: the key is not packed
  std::uint32_t argument_cells_ = 0;
  TableView view_;
  bool is_plain_ = false;  // a hit only selects its action

  const Image& image_;
  const Table& layout_;
  const TableInfo& info_;
  ProfileMembers* profile_;
  const MatchTable* first_ = nullptr;  // that holds the entries; null: this one does
  bool has_ranges_ = false;
  bool has_priority_ = false;
  bool has_special_hits_ = false;
  const Key* lpm_ = nullptr;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<std::unique_ptr<Tuple>> tuples_;
  std::vector<std::uint32_t> ranges_;  // in a table with ranges: entries by falling priority
  std::vector<Cell> scratch_;          // the key during a lookup
  std::vector<TableView::Tuple> tuple_views_;  // in a packed table: at least one
  std::vector<Cell> all_arguments_;            // in a packed table: entry after entry
  std::vector<Cell> default_cells_;
  ActionCall default_call_;
  std::int64_t next_expiry_ns_ = kNever;
  std::int64_t next_scan_ns_ = 0;  // no scan before this time
};

// kInvalidArgument if a meter cannot handle these rates. place: for messages.
Status check_meter(const std::string& place, const MeterConfig& config);

}  // namespace tiercast::engine
