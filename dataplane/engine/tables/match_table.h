// The entries of one table, and their look-up.
//
// Entries with the same mask share a hash table (tuple space search: Srinivasan, Suri, Varghese,
// SIGCOMM 1999). An exact table has one; an lpm table one per prefix length, the longest first; a
// ternary table one per mask, of which the entry with the highest priority wins. Entries with a
// range are compared one by one. Look-ups never allocate; changes may.
//
// Most tables are exact, with one or two fields. Their key is packed into one cell and stored in
// the hash table beside the action, and the arguments of all entries are stored together. So a
// look-up touches few places in memory, none of which is in the processor's cache while packets go
// through many switches.
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
#include "dataplane/engine/tables/meter.h"
#include "dataplane/engine/tables/profile_members.h"

namespace tiercast::engine {

class alignas(64) MatchTable {
 public:
  struct Entry {
    std::vector<Cell> key;   // masked; of a range: the low bound
    std::vector<Cell> mask;  // of a range: the high bound
    std::int32_t priority = 0;
    std::uint32_t action = 0;     // index into Table::actions
    std::vector<Cell> arguments;  // in a packed table all_arguments_ has them
    CounterValue counter;
    ActionCall call;  // as the control plane gave it, its arguments in canonical form
    std::optional<std::uint32_t> member, group;  // of the table's action profile
    ProfileMembers::Binding binding;             // what it refers to in the profile
    Meter meter;
    std::int64_t idle_timeout_ns = 0;
    std::int64_t last_hit_ns = 0;  // or when it was written; in tables that support time-outs
    std::int64_t reported_ns = 0;  // last, as idle
  };

  // The arguments must outlive the MatchTable. Installs the program's constant entries; wrong ones
  // give a status. profile: the table's action profile, or nullptr.
  MatchTable(const Image& image, const Table& layout, ProfileMembers* profile = nullptr);
  Status install_constant_entries();

  // nullptr: miss.
  Entry* lookup(const Cell* phv);
  // What a packet of `bytes` does at this table; the direct counter counts it.
  struct Outcome {
    std::uint32_t action;  // index into Table::actions; kNone: a miss without default action
    bool hit;
    const Cell* arguments;
    Entry* special = nullptr;  // a hit that must be passed to TableHits::complete()
  };
  Outcome apply(const Cell* phv, std::uint32_t bytes);
  const ProfileMembers* profile() const { return profile_; }
  // kNone: the table has no default action.
  std::uint32_t default_action() const { return default_action_; }
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
  std::size_t size() const { return entries_.size(); }
  TableEntry describe(const Entry& entry, std::int64_t now_ns) const;

  // Time-outs: when an entry may next have been idle for too long (kNever: none has a time-out),
  // and those that have been, since they were hit or taken. This scans all entries, so it is called
  // at most every kScanSpacing for each of them. Shorter time-outs count as kMinTimeout.
  static constexpr std::int64_t kMinTimeout = 10'000'000;  // ns
  static constexpr std::int64_t kScanSpacing = 1'000;      // ns
  std::int64_t next_expiry_ns() const { return next_expiry_ns_; }
  std::vector<TableEntry> take_expired(std::int64_t now_ns);

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  static constexpr std::uint32_t kFree = 0xffffffff;
  static constexpr std::uint32_t kDeleted = 0xfffffffe;
  struct Slot {
    Cell first_word = 0;          // of the entry's key, or all of it, packed
    std::uint32_t entry = kFree;  // index, kFree or kDeleted
    std::uint32_t action = 0;     // the entry's
  };
  // A field of a packed key.
  struct PackedField {
    std::uint32_t cell = 0;
    std::uint32_t shift = 0;
  };
  static constexpr std::size_t kMostPacked = 2;
  struct Tuple {
    std::vector<Cell> mask;
    unsigned prefix_length = 0;  // of the lpm field
    std::vector<Slot> slots;     // a power of two
    std::size_t used = 0;        // slots that are not kFree
    std::size_t live = 0;
  };

  Status insert_checked(const TableEntry& entry, std::int64_t now_ns);
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
  Slot& slot_of(Tuple& tuple, std::uint32_t index) const;  // it must be there
  void sort_ranges();
  std::uint64_t hash(const Cell* key, const Cell* mask) const;
  void pack_key();
  bool is_packed() const { return packed_fields_ != 0; }
  Cell packed(const Entry& entry) const;
  // Where the search for an entry begins, and what its slot holds of its key.
  std::uint64_t hash(const Entry& entry, const Tuple& tuple) const;
  Cell first_word(const Entry& entry) const;
  // In a packed table: the slot that holds the key, or a free one.
  const Slot& find_slot(const Cell* phv) const;
  Cell* arguments_of(std::uint32_t entry) const {
    return arguments_ + std::size_t{entry} * argument_cells_;
  }
  // In a packed table, after any change: updates what look-ups read of a new or changed entry, and
  // where they begin.
  void renew_entry(std::uint32_t index);
  void renew();
  bool in_ranges(const Entry& entry, const Cell* key) const;
  unsigned prefix_of(const std::vector<Cell>& mask) const;
  std::string entry_text(const TableEntry& entry) const;

  // What a look-up in a packed table reads, close together.
  std::array<PackedField, kMostPacked> packing_{};
  std::uint32_t packed_fields_ = 0;   // 0: the key is not packed
  std::uint32_t argument_cells_ = 0;  // of the action that has most
  const Slot* slots_ = nullptr;       // of the only tuple, or a free one
  std::size_t last_slot_ = 0;
  Cell* arguments_ = nullptr;  // argument_cells_ of each entry
  std::uint32_t default_action_ = kNone;
  bool is_plain_ = false;  // a hit does nothing but its action

  const Image& image_;
  const Table& layout_;
  const TableInfo& info_;
  ProfileMembers* profile_;
  bool has_ranges_ = false;
  bool has_priority_ = false;
  bool has_special_hits_ = false;
  const Key* lpm_ = nullptr;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<std::unique_ptr<Tuple>> tuples_;
  std::vector<std::uint32_t> ranges_;  // entries by falling priority, in a table with ranges
  std::vector<Cell> scratch_;          // the key of a look-up
  std::vector<Cell> all_arguments_;    // in a packed table, of one entry after the other
  std::vector<Cell> default_cells_;
  ActionCall default_call_;
  std::int64_t next_expiry_ns_ = kNever;
  std::int64_t next_scan_ns_ = 0;  // not before
};

// Rates that a meter can keep; place: for messages.
Status check_meter(const std::string& place, const MeterConfig& config);

}  // namespace tiercast::engine
