// What the control plane says to a Switch and hears from it: entries, groups, sessions, counters.
//
// Names are those of the program (bmv2 JSON and P4Info agree on them): `ingress.ipv4_host`, or
// `ipv4_host` where the P4 source says @name(".ipv4_host"). Values are byte strings in network
// order, as in P4Runtime: leading zero bytes may be missing or superfluous, but a value that does
// not fit its width in bits is an error. What is read back is in P4Runtime's canonical form (the
// shortest string, at least one byte).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

struct CounterValue {
  std::uint64_t packets = 0;
  std::uint64_t bytes =
      0;  // of the packets as they were received (standard_metadata.packet_length)
  bool operator==(const CounterValue&) const = default;
};

// What a meter lets through: green up to the committed rate, yellow up to the peak rate, then red
// (two-rate three-colour marker, RFC 2698), or with one rate: green within the committed burst,
// yellow within the excess burst, which fills with what the committed one leaves (RFC 2697).
// Colour-blind. In bytes of the packet as it was received, or in packets: the meter says which.
struct MeterConfig {
  double committed_rate = 0;          // units a second, 0 or more
  std::uint64_t committed_burst = 0;  // units
  double peak_rate = 0;               // at least the committed rate; unused with a single rate
  std::uint64_t peak_burst = 0;       // with a single rate: the excess burst
  bool single_rate = false;
  bool operator==(const MeterConfig&) const = default;
};

struct TableEntry {
  std::vector<FieldMatch> match;        // one per key field, in the table's order
  std::int32_t priority = 0;            // 1 to 2^31 - 1, the largest wins; 0 in tables without
                                        // ternary, range or optional fields
  ActionCall action;                    // of a hit; empty in a table with an action profile
  std::optional<CounterValue> counter;  // read: present if the table has a direct counter
  std::optional<std::uint32_t> member = std::nullopt;  // what a hit does in a table with an
  std::optional<std::uint32_t> group = std::nullopt;   // action profile: one of these two
  std::optional<MeterConfig> meter = std::nullopt;     // direct meter; none: all is green
  std::int64_t idle_timeout_ns = 0;  // Output::entry_expired after so long without a hit; 0: no
  std::int64_t idle_ns = 0;          // read: since the last hit, or since it was inserted;
                                     // in tables that support time-outs
};

// A group of an action selector: one of its members is chosen by the selector's hash.
struct ActionGroup {
  std::vector<std::uint32_t> members;  // chosen in ascending order: hash mod their number; one that
                                       // stands there several times has that weight
  bool operator==(const ActionGroup&) const = default;
};

// How digests are gathered into lists.
struct DigestConfig {
  std::uint32_t max_list_size = 1;  // digests; 0: no limit
  std::int64_t max_timeout_ns = 0;  // a list is sent when its first digest is so old; 0: at once
  std::int64_t ack_timeout_ns = 0;  // a digest that was sent is not sent again for so long, or
                                    // until its list is acknowledged; 0: it is
  bool operator==(const DigestConfig&) const = default;
};
using DigestData = std::vector<Bytes>;  // its fields, in the order of the P4 struct
struct DigestList {
  std::string name;
  std::uint64_t list_id = 0;  // counts up from 1
  std::vector<DigestData> digests;
  std::int64_t time_ns = 0;  // when it was sent
};

// A member of a parser value set: for each part of the select's key FieldMatch::exact, ternary or
// dont_care.
using ValueSetMember = std::vector<FieldMatch>;

// Of crc16_custom and crc32_custom; the most significant bit of the polynomial is left out.
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

// Where a mirrored (cloned) packet goes: to each replica.
struct CloneSession {
  std::vector<Replica> replicas;
  std::uint16_t packet_length = 0;  // bytes kept of a copy; 0: all
};

// What the program declares, for whoever maps P4Info ids to names.
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
  std::uint64_t max_size = 0;  // entries
  bool needs_priority = false;
  bool is_const = false;  // its entries stand in the program
  bool const_default = false;
  std::string direct_counter;     // its name, or empty
  std::string direct_meter;       // its name, or empty
  std::string action_profile;     // its name, or empty
  bool supports_timeout = false;  // of entries that are idle
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
  bool bytes = false;      // else packets
};
struct ActionProfileInfo {
  std::string name;
  std::uint64_t max_size = 0;  // members
  bool selector = false;       // it has groups
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
