// Executes an image's code on one packet: parser, actions, conditions, checksums, deparser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/engine/control/output.h"
#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/zero_memory.h"
#include "dataplane/engine/tables/match_table.h"
#include "dataplane/engine/tables/meter.h"

namespace tiercast::engine {

// What one packet's processing reads and leaves behind, beside the packet vector.
struct PacketState {
  Cell* phv = nullptr;
  // As received; the parser reads it, and may load up to 8 bytes beyond its end.
  std::span<const std::byte> frame;
  std::size_t cursor = 0;             // bytes that the parser consumed
  std::uint32_t received_length = 0;  // bytes; what counters count
  std::uint32_t error = 0;            // of the parser; 0: none
  bool exited = false;
  std::uint32_t clone_session = 0;  // 0: no clone wanted
  std::uint32_t clone_fields = 0;   // a field list
  bool resubmit = false;
  bool recirculate = false;
  std::uint32_t again_fields = 0;  // the field list of resubmit and recirculate
  std::uint32_t truncate = 0;      // bytes kept; 0: all
  std::size_t states_left = 0;     // that the parser may pass
  std::uint32_t next_pc = 0;       // where the code that ran last goes on
  std::uint32_t digest = kNone;    // of Image::digests
  bool assertion_failed = false;   // then it has exited too
};

// The program's state that outlives packets, tables apart.
struct Externs {
  Externs(const Image& image, std::uint64_t seed);
  ZeroMemory memory;  // of registers and counters
  std::vector<std::span<Cell>> registers;
  std::vector<std::span<CounterValue>> counters;
  std::vector<std::vector<Meter>> meters;
  // Members of each value set: values and masks as the cells of a parser state's key.
  struct KeyMatch {
    std::vector<Cell> value, mask;
    ValueSetMember given;
  };
  std::vector<std::vector<KeyMatch>> value_sets;
  std::vector<CrcParameters> crc;  // of each calculation
  std::uint64_t random_state;
  std::int64_t now_ns = 0;  // set before a packet is processed
};

// Of two varbit fields in the packet vector: the same length and value.
bool varbits_equal(const Cell* a, const Cell* b);

// SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t next_random(std::uint64_t& state);

class Machine {
 public:
  // All must outlive the Machine.
  Machine(const Image& image, Externs& externs, Output& output, std::uint32_t drop_port);

  // Parses packet.frame from its start into packet.phv. On a parser error the headers extracted
  // so far stay valid, and parsing ends (v1model).
  void parse(PacketState& packet);
  // The same, as flat code.
  void parse_flat(PacketState& packet, std::span<const std::unique_ptr<MatchTable>> tables);
  // The same as parse(), and returns the states that it goes through.
  std::vector<std::uint32_t> parse_traced(PacketState& packet);
  // Runs an action's code, or a condition's; the result is what the code leaves on the stack.
  bool run(CodeRange code, PacketState& packet, const Cell* arguments = nullptr);
  // Runs a part of an action's code, from its beginning to the end of a statement, and returns
  // where the code goes on: also elsewhere in the action.
  std::uint32_t run_part(CodeRange code, PacketState& packet, const Cell* arguments);
  void verify_checksums(PacketState& packet);
  void update_checksums(PacketState& packet);
  // Runs flat code from an address of FlatCode until its end.
  void run_flat(std::uint32_t start, PacketState& packet,
                std::span<const std::unique_ptr<MatchTable>> tables);
  // What a hit does beside its action: the direct meter, the time-out, the choice of a member.
  void special_hit(const Table& layout, MatchTable& table, PacketState& packet,
                   MatchTable::Outcome& outcome);
  // The bytes that deparse() will write.
  std::size_t header_bytes(const Cell* phv) const;
  static bool all_zero(const Cell* phv, const std::vector<std::uint32_t>& cells) {
    Cell any = 0;
    for (const std::uint32_t cell : cells) any |= phv[cell];
    return any == 0;
  }
  // What has to be done to the frame. kRewrite: the valid headers are, in the deparser's order,
  // those that it starts with, and end at the cursor, so that rewrite() is enough. kNothing:
  // moreover none has changed.
  enum class Frame { kNothing, kRewrite, kDeparse };
  Frame compare_with_frame(const Cell* phv, std::size_t cursor) const;
  // Writes what the program may have changed over the headers in a copy of the frame.
  void rewrite(const Cell* phv, std::byte* frame) const;
  // The same, and remembers that it is done.
  void rewrite_early(Cell* phv, std::byte* frame) const;
  // Writes the valid headers in the deparser's order; returns the bytes written.
  std::size_t deparse(const PacketState& packet, std::byte* out) const;

 private:
  template <class Value>
  Word execute(std::uint32_t pc, std::uint32_t end, PacketState& packet, const Cell* arguments);
  bool extract(PacketState& packet, const Header& header, std::uint32_t varbit_bits);
  bool extract_plain(PacketState& packet, const HeaderPlan& plan,
                     const std::vector<FieldPlan>& fields);
  void begin_parsing(PacketState& packet) const;
  template <class Visitor>
  void parse_states(PacketState& packet, Visitor visit);
  // One parser state: false if parsing ends with an error; next: the state that follows.
  bool run_state(const ParserState& state, PacketState& packet, std::uint32_t& next);
  void set_valid(Cell* phv, std::uint32_t header, bool valid) const;
  void assign_header(Cell* phv, std::uint32_t to, std::uint32_t from) const;
  bool headers_equal(const Cell* phv, std::uint32_t a, std::uint32_t b) const;
  void shift_stack(Cell* phv, const HeaderStack& stack, int by) const;
  void set_element_valid(Cell* phv, const HeaderStack& stack, std::size_t index, bool valid) const;
  Cell calculate(std::uint32_t calculation, const PacketState& packet);
  Cell calculate_general(std::uint32_t calculation, const PacketState& packet);
  Cell sum_received(const Checksum& checksum, const PacketState& packet) const;
  void verify(const Checksum& checksum, PacketState& packet);
  void update(const Checksum& checksum, PacketState& packet);
  Cell apply(std::uint32_t calculation, std::span<const std::byte> data);
  bool in_value_set(std::uint32_t value_set, const Cell* key) const;
  template <class Value>
  void log_message(const LogFormat& format, const Value* arguments);

  const Image& image_;
  Externs& externs_;
  Output& output_;
  std::uint32_t drop_port_;
  std::vector<std::byte> scratch_;  // a calculation's input
};

}  // namespace tiercast::engine
