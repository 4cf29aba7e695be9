// What native code (native/generate.h) and the engine share: the layouts that both know, and the
// functions by which each calls the other. Needs nothing but the standard library, because this
// text is the beginning of every generated file. Its text is part of what names a compiled object,
// so an object of another version is never used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tiercast::engine {

// What code on one packet reads and leaves behind, in addition to the packet vector.
struct NativePacket {
  std::uint64_t* phv = nullptr;
  // The frame as received. The parser may load up to 8 bytes beyond its end.
  const std::byte* data = nullptr;
  std::size_t size = 0;
  std::size_t cursor = 0;             // bytes that the parser consumed
  std::size_t states_left = 0;        // number of states that the parser may still pass
  std::uint32_t received_length = 0;  // bytes; the value that counters add
  std::uint32_t error = 0;            // of the parser; 0: no error
  bool exited = false;
};

// What a lookup reads of a table whose keys and arguments are packed.
struct TableView {
  static constexpr std::uint32_t kFree = 0xffffffff;
  static constexpr std::uint32_t kDeleted = 0xfffffffe;
  struct Slot {
    std::uint64_t key = 0;        // first word of the entry's key; the whole key if packed
    std::uint32_t entry = kFree;  // index, kFree or kDeleted
    std::uint32_t action = 0;     // the entry's action
  };
  // The entries with one mask.
  struct Tuple {
    std::uint64_t mask = 0;
    const Slot* slots = nullptr;
    std::uint64_t last_slot = 0;  // their number, a power of two, minus 1
  };
  const Tuple* tuples = nullptr;             // in the order in which they are tried
  std::size_t tuple_count = 0;               // of an exact table: always 1
  const std::uint64_t* arguments = nullptr;  // of each entry, one after the other
  const std::uint64_t* default_arguments = nullptr;
  std::uint32_t default_action = 0xffffffff;  // 0xffffffff: none
};

// What a table does to a packet.
struct TableOutcome {
  std::uint32_t action = 0xffffffff;  // index into the table's actions; 0xffffffff: none
  bool hit = false;
  const std::uint64_t* arguments = nullptr;
};

inline std::uint64_t add_to_hash(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0xff51afd7ed558ccd;  // MurmurHash3's finaliser
  return hash ^ hash >> 32;
}
constexpr std::uint64_t kEmptyHash = 0x9e3779b97f4a7c15;

// The slot that holds the key, or a free one. The key is masked.
inline const TableView::Slot& find_slot(const TableView::Tuple& tuple, std::uint64_t key) {
  for (std::uint64_t at = add_to_hash(kEmptyHash, key) & tuple.last_slot;;
       at = (at + 1) & tuple.last_slot) {
    const TableView::Slot& slot = tuple.slots[at];
    if (slot.entry == TableView::kFree || (slot.key == key && slot.entry != TableView::kDeleted)) {
      return slot;
    }
  }
}

// The entry's slot, or a free one. The tuples are tried in order.
inline const TableView::Slot& find_slot(const TableView& table, std::uint64_t key) {
  const TableView::Tuple* tuple = table.tuples;
  for (std::size_t left = table.tuple_count;; ++tuple) {
    const TableView::Slot& slot = find_slot(*tuple, key & tuple->mask);
    if (slot.entry != TableView::kFree || --left == 0) return slot;
  }
}

// The 8 bytes at p as a big-endian number, and the same for fewer.
inline std::uint64_t load64(const std::byte* p) {
  std::uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return __builtin_bswap64(value);
}
inline std::uint64_t load32(const std::byte* p) {
  std::uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return __builtin_bswap32(value);
}
inline std::uint64_t load16(const std::byte* p) {
  std::uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return __builtin_bswap16(value);
}
inline std::uint64_t load8(const std::byte* p) { return std::to_integer<std::uint64_t>(*p); }
inline void store64(std::byte* p, std::uint64_t value) {
  value = __builtin_bswap64(value);
  std::memcpy(p, &value, sizeof value);
}
inline void store32(std::byte* p, std::uint64_t value) {
  const std::uint32_t bytes = __builtin_bswap32(static_cast<std::uint32_t>(value));
  std::memcpy(p, &bytes, sizeof bytes);
}
inline void store16(std::byte* p, std::uint64_t value) {
  const std::uint16_t bytes = __builtin_bswap16(static_cast<std::uint16_t>(value));
  std::memcpy(p, &bytes, sizeof bytes);
}
inline void store8(std::byte* p, std::uint64_t value) { *p = static_cast<std::byte>(value); }

// A one's complement sum, folded to 16 bits, complemented (RFC 1071).
inline std::uint64_t checksum_of(std::uint64_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

// A pipeline of one switch, as native code sees it. The functions are the interpreter's, for what
// is not generated; `code` is a range of the image's stack code.
struct NativeContext {
  const TableView* const* tables = nullptr;
  std::uint64_t* registers = nullptr;        // the cells of all arrays
  std::uint64_t* const* counters = nullptr;  // packets and bytes of each, one after the other
  std::uint64_t drop_port = 0;
  void* machine = nullptr;  // the pipeline itself
  void (*table)(const NativeContext&, NativePacket&, std::uint32_t table, TableOutcome&) = nullptr;
  void (*call)(const NativeContext&, NativePacket&, std::uint32_t begin, std::uint32_t end,
               const std::uint64_t* arguments) = nullptr;
  // Whether the code's result is not 0.
  std::uint64_t (*condition)(const NativeContext&, NativePacket&, std::uint32_t begin,
                             std::uint32_t end) = nullptr;
  // False if parsing ends with an error. next: the state that follows.
  bool (*run_state)(const NativeContext&, NativePacket&, std::uint32_t state,
                    std::uint32_t& next) = nullptr;
  void (*verify)(const NativeContext&, NativePacket&, std::uint32_t checksum) = nullptr;
  void (*update)(const NativeContext&, NativePacket&, std::uint32_t checksum) = nullptr;
};

// What must be done to the frame of a packet that leaves (run/parse/deparser.h).
enum class FrameNeeds : std::uint32_t { kNothing, kRewrite, kDeparse };

// One pipeline, compiled. Each does what the class of the engine that is named does.
struct NativePipeline {
  using Part = void (*)(const NativeContext&, NativePacket&);
  void (*clear)(std::uint64_t* phv);  // the cells that must be 0 in a new packet
  void (*copy)(const std::uint64_t* from, std::uint64_t* to);  // the cells that a copy needs
  Part parse, verify, ingress, egress, update;                 // FlatMachine
  std::size_t (*header_bytes)(const std::uint64_t* phv);       // Deparser, as those below
  bool (*is_unchanged)(const std::uint64_t* phv);
  FrameNeeds (*compare)(const std::uint64_t* phv, std::size_t cursor);
  void (*rewrite)(const std::uint64_t* phv, std::byte* frame);
  void (*settle)(std::uint64_t* phv);  // notes that the frame has all changes of its headers
};

// What a generated file exports, as kNativeSymbol.
struct NativeProgram {
  NativePipeline pipeline;
  const NativePipeline* egress;  // of an architecture that parses twice; otherwise null
};

}  // namespace tiercast::engine
