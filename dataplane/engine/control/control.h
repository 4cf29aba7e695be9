// What the control plane gives a Switch and reads from it: entries, groups, sessions, counters.
//
// Names are the program's own, the same in bmv2 JSON and P4Info: `ingress.ipv4_host`, or
// `ipv4_host` where the P4 source says @name(".ipv4_host"). Values are byte strings in network
// order, as in P4Runtime. On input, leading zero bytes may be missing or superfluous, but a value
// that exceeds its width in bits is an error. Values are read back in P4Runtime's canonical form:
// the shortest string, of at least one byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tiercast::engine {

using Bytes = std::string;  // network order

enum class MatchKind { kExact, kLpm, kTernary, kRange, kOptional };
const char* to_string(MatchKind kind);

// What one key field of an entry must match.
struct FieldMatch {
  bool any = false;            // matches every value (not for exact fields); the rest is unused
  Bytes value;                 // exact, lpm, ternary, optional: the value; range: the low bound
  Bytes mask;                  // ternary: the mask; range: the high bound (inclusive)
  unsigned prefix_length = 0;  // lpm: bits, 0 to the field's width

  static FieldMatch exact(Bytes value) { return {false, std::move(value), {}, 0}; }
  static FieldMatch lpm(Bytes value, unsigned prefix_length) {
    return {false, std::move(value), {}, prefix_length};
  }
  static FieldMatch ternary(Bytes value, Bytes mask) {
    return {false, std::move(value), std::move(mask), 0};
  }
  static FieldMatch range(Bytes low, Bytes high) {
    return {false, std::move(low), std::move(high), 0};
  }
  static FieldMatch dont_care() { return {true, {}, {}, 0}; }
  bool operator==(const FieldMatch&) const = default;
};

struct ActionCall {
  std::string name;
  std::vector<Bytes> arguments;  // in the order of the action's parameters
  bool operator==(const ActionCall&) const = default;
};

// Cells of an array of counters, registers or meters: [first, last).
struct CellRange {
  CellRange(std::uint64_t index) : first(index), last(index + 1) {}
  CellRange(std::uint64_t from, std::uint64_t to) : first(from), last(to) {}
  bool within(std::uint64_t size) const { return first <= last && last <= size; }

  std::uint64_t first, last;
};

struct CounterValue {
  std::uint64_t packets = 0;
  std::uint64_t bytes =
      0;  // of the packets as they were received (standard_metadata.packet_length)
  bool operator==(const CounterValue&) const = default;
};

// A meter's rates and bursts. With two rates, packets are green up to the committed rate, yellow up
// to the peak rate, and red above it (RFC 2698). With a single rate, packets are green within the
// committed burst and yellow within the excess burst, which fills with what overflows the committed
// one (RFC 2697). Colour-blind. The unit is what the meter declares: packets, or the bytes of a
// packet as received.
struct MeterConfig {
  double committed_rate = 0;          // units a second, 0 or more
  std::uint64_t committed_burst = 0;  // units
  double peak_rate = 0;               // at least the committed rate; unused with a single rate
  std::uint64_t peak_burst = 0;       // with a single rate: the excess burst
  bool single_rate = false;
  bool operator==(const MeterConfig&) const = default;
};

// One action of an entry's own group.
struct WeightedAction {
  ActionCall action;
  std::uint32_t weight = 1;                                // as in GroupMember
  std::optional<std::uint32_t> watch_port = std::nullopt;  // as in GroupMember
  bool operator==(const WeightedAction&) const = default;
};

struct TableEntry {
  std::vector<FieldMatch> match;        // one per key field, in the table's order
  std::int32_t priority = 0;            // 1 to 2^31 - 1, the largest wins; 0 in a table without
                                        // ternary, range or optional fields
  ActionCall action;                    // on a hit; empty in a table with an action profile
  std::optional<CounterValue> counter;  // read only: present if the table has a direct counter
  std::optional<std::uint32_t> member = std::nullopt;  // what a hit does in a table with an
  std::optional<std::uint32_t> group = std::nullopt;   // action profile: one of these three, the
  std::optional<std::vector<WeightedAction>> action_set = std::nullopt;  // last a group of its own
  std::optional<MeterConfig> meter = std::nullopt;  // direct meter; none: every packet is green
  std::int64_t idle_timeout_ns = 0;  // call Output::entries_expired after this long without a hit;
                                     // 0: never
  std::int64_t idle_ns = 0;          // read only, if the table supports time-outs: time since the
                                     // last hit, or since the write
};

// A group of an action selector. The members are laid out by ascending id, each as often as its
// weight; the selector's hash modulo the sum of the weights picks one.
struct GroupMember {
  std::uint32_t member = 0;
  std::uint32_t weight = 1;                                // above 0
  std::optional<std::uint32_t> watch_port = std::nullopt;  // skipped while this port is down
  bool operator==(const GroupMember&) const = default;
};
struct ActionGroup {
  std::vector<GroupMember> members;
  bool operator==(const ActionGroup&) const = default;
};

// How full an action profile is.
struct ProfileUsage {
  std::uint64_t members = 0;        // those with an id
  std::uint64_t groups = 0;         // those with an id
  std::uint64_t action_sets = 0;    // entries with a group of their own
  std::uint64_t group_members = 0;  // of all groups, including those that entries own
  std::uint64_t group_weight = 0;   // sum of the weights of these members
};

// How digests are gathered into lists.
struct DigestConfig {
  std::uint32_t max_list_size = 1;  // digests; 0: as many as a list can have (digest_list.h)
  std::int64_t max_timeout_ns = 0;  // send a list when its first digest is this old; 0: at once
  std::int64_t ack_timeout_ns = 0;  // do not repeat a digest within this time, unless its list is
                                    // acknowledged; 0: always repeat
  bool operator==(const DigestConfig&) const = default;
};
using DigestData = std::vector<Bytes>;  // its fields, in the order of the P4 struct
// A view, valid only during the call that passes it.
struct DigestList {
  std::string_view name;
  std::uint64_t list_id = 0;         // counts from 1
  std::int64_t time_ns = 0;          // when it was sent
  std::size_t size = 0;              // digests
  std::span<const unsigned> widths;  // bits of a digest's fields
  std::span<const std::byte> bytes;  // the digests in a row; each field in network order and whole
                                     // bytes
  DigestData at(std::size_t index) const;
};

// A member of a parser value set: one FieldMatch (exact, ternary or dont_care) for each part of the
// select's key.
using ValueSetMember = std::vector<FieldMatch>;

// The parameters of crc16_custom and crc32_custom. The polynomial leaves out its most significant
// bit.
struct CrcParameters {
  std::uint32_t polynomial = 0;
  std::uint32_t initial = 0;
  std::uint32_t final_xor = 0;
  bool reflect_data = false;
  bool reflect_remainder = false;
  bool operator==(const CrcParameters&) const = default;
};

// One copy made by the replication engine. instance becomes standard_metadata.egress_rid.
struct Replica {
  std::uint32_t port = 0;
  std::uint16_t instance = 0;
  auto operator<=>(const Replica&) const = default;
};

// The replicas that a mirrored (cloned) packet is sent to.
struct CloneSession {
  std::vector<Replica> replicas;
  std::uint16_t packet_length = 0;  // bytes that a copy keeps; 0: all
};

// What the program declares. For code that maps P4Info ids to names.
struct KeyField {
  std::string name;  // as in P4Info: "hdr.ipv4.dst_addr"
  MatchKind kind;
  unsigned width;  // bits
};
struct ActionParameter {
  std::string name;
  unsigned width;  // bits
};
struct ActionInfo {
  std::string name;
  std::vector<ActionParameter> parameters;
};
struct TableInfo {
  std::string name;
  std::vector<KeyField> keys;
  std::vector<std::string> actions;
  std::uint64_t max_size = 0;  // entries; no limit if the program begins with some
  bool needs_priority = false;
  std::vector<TableEntry> initial_entries;  // those that the program begins with. Only its P4Info
                                            // says whether they are constant.
  bool const_default = false;
  std::string direct_counter;     // its name, or empty
  std::string direct_meter;       // its name, or empty
  std::string action_profile;     // its name, or empty
  bool supports_timeout = false;  // whether its entries may have idle time-outs
};
struct CounterInfo {
  std::string name;
  std::uint64_t size = 0;  // cells; 0 for a direct counter
  std::string table;       // of a direct counter, else empty
};
struct RegisterInfo {
  std::string name;
  std::uint64_t size = 0;  // cells
  unsigned width = 0;      // bits of a cell
};
struct MeterInfo {
  std::string name;
  std::uint64_t size = 0;  // cells; 0 for a direct meter
  std::string table;       // of a direct meter, else empty
  bool bytes = false;      // counts bytes; otherwise packets
};
struct ActionProfileInfo {
  std::string name;
  std::uint64_t max_size = 0;  // members
  bool selector = false;       // whether it can have groups
};
struct DigestInfo {
  std::string name;
  std::vector<unsigned> widths;  // bits of its fields
};
struct ValueSetInfo {
  std::string name;
  std::uint64_t max_size = 0;    // members
  std::vector<unsigned> widths;  // bits of the parts of its key
};

}  // namespace tiercast::engine
