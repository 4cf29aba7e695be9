// Between bytes and packet vector: parser and deparser.
#include <algorithm>
#include <cstring>

#include "dataplane/engine/image/limits.h"
#include "dataplane/engine/packet/bits.h"
#include "dataplane/engine/run/machine.h"

namespace tiercast::engine {

namespace {

// The 8 bytes at p as a big-endian number.
Cell load(const std::byte* p) {
  Cell value;
  std::memcpy(&value, p, sizeof value);
  return __builtin_bswap64(value);
}

template <class Integer>
void store(std::byte* p, Integer big_endian) {
  std::memcpy(p, &big_endian, sizeof big_endian);
}

void write(std::byte* header, const FieldPlan& field, Cell value) {
  std::byte* p = header + field.byte;
  switch (field.whole_bytes) {
    case 1: *p = static_cast<std::byte>(value); break;
    case 2: store(p, __builtin_bswap16(static_cast<std::uint16_t>(value))); break;
    case 4: store(p, __builtin_bswap32(static_cast<std::uint32_t>(value))); break;
    case 6:
      store(p, __builtin_bswap32(static_cast<std::uint32_t>(value >> 16)));
      store(p + 4, __builtin_bswap16(static_cast<std::uint16_t>(value)));
      break;
    case 8: store(p, __builtin_bswap64(value)); break;
    default: {  // byte by byte: 8 at once might reach beyond the frame
      // The field's bits, and its neighbours' place, in the 8 bytes that start at p.
      const Cell bits = value << field.shift, mask = field.mask << field.shift;
      for (unsigned at = 0; at < 8 && mask << (8 * at) != 0; ++at) {
        const auto keep = static_cast<std::byte>(~mask >> (56 - 8 * at));
        p[at] = (p[at] & keep) | static_cast<std::byte>(bits >> (56 - 8 * at));
      }
    }
  }
}

}  // namespace

bool Machine::extract_plain(PacketState& packet, const HeaderPlan& plan,
                            const std::vector<FieldPlan>& fields) {
  if (plan.bytes > packet.frame.size() - packet.cursor) {
    packet.error = image_.error_packet_too_short;
    return false;
  }
  const std::byte* data = packet.frame.data() + packet.cursor;
  Cell* phv = packet.phv;
  for (const FieldPlan& field : fields) {
    phv[field.cell] = load(data + field.byte) >> field.shift & field.mask;
  }
  phv[plan.valid_cell] = 1;
  phv[plan.origin_cell] = packet.cursor + 1;
  phv[plan.dirty_cell] = 0;
  packet.cursor += plan.bytes;
  return true;
}

bool Machine::extract(PacketState& packet, const Header& header, std::uint32_t varbit_bits) {
  const HeaderPlan& plan =
      image_.header_plans[static_cast<std::size_t>(&header - image_.headers.data())];
  if (plan.plain) return extract_plain(packet, plan, plan.read);
  if (varbit_bits % 8 != 0) {
    packet.error = image_.error_parser_invalid_argument;
    return false;
  }
  const std::size_t bytes = (std::size_t{header.fixed_bits} + varbit_bits) / 8;
  if (bytes > packet.frame.size() - packet.cursor) {
    packet.error = image_.error_packet_too_short;
    return false;
  }
  if (header.varbit != kNone && varbit_bits > header.fields[header.varbit].width) {
    packet.error = image_.error_header_too_short;
    return false;
  }
  const std::byte* data = packet.frame.data() + packet.cursor;
  std::size_t bit = 0;
  for (const Field& field : header.fields) {
    Cell* cell = packet.phv + field.cell;
    if (field.is_varbit) {
      *cell = varbit_bits;
      read_wide(data, bit, varbit_bits, cell + 1);
      bit += varbit_bits;
      continue;
    }
    if (field.width <= kCellBits) {
      *cell = read_bits(data, bit, field.width);
    } else {
      read_wide(data, bit, field.width, cell);
    }
    bit += field.width;
  }
  set_valid(packet.phv, static_cast<std::uint32_t>(&header - image_.headers.data()), true);
  packet.cursor += bytes;
  return true;
}

bool Machine::run_state(const ParserState& state, PacketState& packet, std::uint32_t& next) {
  execute<Word>(state.ops.begin, state.ops.end, packet, nullptr);
  if (packet.error != 0 || packet.exited) return false;
  Cell key[kMaxParserKeyCells];
  std::uint32_t word = 0;
  for (const ParserKey& part : state.key) {
    const Instruction& first = image_.code[part.code.begin];
    if (part.cells == 1) {
      key[word++] =
          static_cast<Cell>(execute<Word>(part.code.begin, part.code.end, packet, nullptr));
    } else if (first.op == Op::kField) {
      std::copy_n(packet.phv + first.a, part.cells, key + word);
      word += part.cells;
    } else {  // kLookahead
      const std::size_t bit = packet.cursor * 8 + first.a;
      if (bit + part.width > packet.frame.size() * 8) {
        packet.error = image_.error_packet_too_short;
        return false;
      }
      read_wide(packet.frame.data(), bit, part.width, key + word);
      word += part.cells;
    }
    if (packet.error != 0) return false;
  }
  const auto chosen = std::find_if(state.transitions.begin(), state.transitions.end(),
                                   [&](const ParserTransition& t) {
                                     if (t.value_set != kNone) {
                                       return in_value_set(t.value_set, key);
                                     }
                                     for (std::size_t w = 0; w < t.value.size(); ++w) {
                                       if ((key[w] & t.mask[w]) != t.value[w]) return false;
                                     }
                                     return true;
                                   });
  if (chosen == state.transitions.end()) {
    packet.error = image_.error_no_match;
    return false;
  }
  next = chosen->next;
  return true;
}

void Machine::parse(PacketState& packet) {
  parse_states(packet, [](std::uint32_t) {});
}

std::vector<std::uint32_t> Machine::parse_traced(PacketState& packet) {
  std::vector<std::uint32_t> states;
  parse_states(packet, [&](std::uint32_t state) { states.push_back(state); });
  return states;
}

void Machine::begin_parsing(PacketState& packet) const {
  packet.cursor = 0;
  packet.error = 0;
  // A loop in the parser's graph that consumes nothing would never end: no packet needs more
  // states than it has bytes, states that consume nothing apart.
  packet.states_left = packet.frame.size() + image_.parser_states.size() + 1;
}

void Machine::parse_flat(PacketState& packet, std::span<const std::unique_ptr<MatchTable>> tables) {
  begin_parsing(packet);
  run_flat(image_.flat.parser, packet, tables);
}

template <class Visitor>
void Machine::parse_states(PacketState& packet, Visitor visit) {
  begin_parsing(packet);
  std::uint32_t state = image_.parser_start;
  while (state != kNone) {
    if (packet.states_left-- == 0) {
      packet.error = image_.error_parser_invalid_argument;
      return;
    }
    visit(state);
    if (!run_state(image_.parser_states[state], packet, state)) return;
  }
}

bool Machine::in_value_set(std::uint32_t value_set, const Cell* key) const {
  for (const Externs::KeyMatch& member : externs_.value_sets[value_set]) {
    bool equal = true;
    for (std::size_t w = 0; w < member.value.size(); ++w) {
      equal &= (key[w] & member.mask[w]) == member.value[w];
    }
    if (equal) return true;
  }
  return false;
}

std::size_t Machine::header_bytes(const Cell* phv) const {
  std::size_t bytes = 0;
  for (const DeparseStep& step : image_.deparse_steps) {
    if (phv[step.valid_cell] == 0) continue;
    bytes += step.bytes;
    if (step.varbit_cell != 0) bytes += phv[step.varbit_cell] / 8;
  }
  return bytes;
}

Machine::Frame Machine::compare_with_frame(const Cell* phv, std::size_t cursor) const {
  std::size_t offset = 0;
  Cell changed = phv[image_.tracked_cell] ^ 1;
  for (const DeparseStep& step : image_.deparse_steps) {
    if (phv[step.valid_cell] == 0) continue;
    if (step.origin_cell == 0 || phv[step.origin_cell] != offset + 1) return Frame::kDeparse;
    changed |= phv[step.dirty_cell];
    offset += step.bytes;
  }
  if (offset != cursor) return Frame::kDeparse;
  return changed == 0 ? Frame::kNothing : Frame::kRewrite;
}

void Machine::rewrite_early(Cell* phv, std::byte* frame) const {
  rewrite(phv, frame);
  for (const DeparseStep& step : image_.deparse_steps) {
    if (phv[step.valid_cell] != 0) phv[step.dirty_cell] = 0;
  }
  for (std::uint32_t dirty : image_.always_dirty) phv[dirty] = 1;
}

void Machine::rewrite(const Cell* phv, std::byte* frame) const {
  const bool tracked = phv[image_.tracked_cell] != 0;
  for (const DeparseStep& step : image_.deparse_steps) {
    if (phv[step.valid_cell] == 0 || (tracked && phv[step.dirty_cell] == 0)) continue;
    std::byte* header = frame + phv[step.origin_cell] - 1;
    for (const FieldPlan& field : image_.header_plans[step.header].write) {
      write(header, field, phv[field.cell]);
    }
  }
}

std::size_t Machine::deparse(const PacketState& packet, std::byte* out) const {
  const Cell* phv = packet.phv;
  std::byte* const start = out;
  for (std::uint32_t index : image_.deparser_order) {
    const Header& header = image_.headers[index];
    if (phv[header.valid_cell] == 0) continue;
    const HeaderPlan& plan = image_.header_plans[index];
    if (plan.plain) {
      const Cell origin = phv[plan.origin_cell];
      if (origin != 0) {
        std::memcpy(out, packet.frame.data() + origin - 1, plan.bytes);
      } else {
        std::memset(out, 0, plan.bytes);
      }
      for (const FieldPlan& field : origin != 0 ? plan.write : plan.fields) {
        write(out, field, phv[field.cell]);
      }
      out += plan.bytes;
      continue;
    }
    BitWriter writer(out);
    for (const Field& field : header.fields) {
      const Cell* cell = phv + field.cell;
      if (field.is_varbit) {
        writer.put_wide(cell + 1, static_cast<unsigned>(*cell));
      } else if (field.width <= kCellBits) {
        writer.put(*cell, field.width);
      } else {
        writer.put_wide(cell, field.width);
      }
    }
    out += writer.bytes();
  }
  return static_cast<std::size_t>(out - start);
}

}  // namespace tiercast::engine
