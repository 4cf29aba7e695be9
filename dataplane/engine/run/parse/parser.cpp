#include "dataplane/engine/run/parse/parser.h"

#include <algorithm>

#include "dataplane/engine/image/limits.h"
#include "dataplane/engine/packet/bits.h"

namespace tiercast::engine {

bool Parser::run_state(const ParserState& state, PacketState& packet, std::uint32_t& next) {
  interpreter_.run(state.ops, packet);
  if (packet.error != 0 || packet.exited) return false;
  Cell key[kMaxParserKeyCells];
  std::uint32_t word = 0;
  for (const ParserKey& part : state.key) {
    const Instruction& first = image_.code[part.code.begin];
    if (part.cells == 1) {
      key[word++] = interpreter_.value(part.code, packet);
    } else if (first.op == Op::kLookahead) {
      const std::size_t bit = packet.cursor * 8 + first.a;
      if (bit + part.width > packet.size * 8) {
        packet.error = image_.error_packet_too_short;
        return false;
      }
      read_wide(packet.data, bit, part.width, key + word);
      word += part.cells;
    } else {  // kField, kSignedField
      std::copy_n(packet.phv + first.a, part.cells, key + word);
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

void Parser::run(PacketState& packet) {
  run_states(packet, [](std::uint32_t) {});
}

std::vector<std::uint32_t> Parser::run_traced(PacketState& packet) {
  std::vector<std::uint32_t> states;
  run_states(packet, [&](std::uint32_t state) { states.push_back(state); });
  return states;
}

void Parser::begin(PacketState& packet) const {
  packet.cursor = 0;
  packet.error = 0;
  packet.states_left = (packet.size + kUnmovedRounds) * (image_.parser_states.size() + 1);
}

template <class Visitor>
void Parser::run_states(PacketState& packet, Visitor visit) {
  begin(packet);
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

bool Parser::in_value_set(std::uint32_t value_set, const Cell* key) const {
  for (const Externs::KeyMatch& member : externs_.value_sets[value_set]) {
    bool equal = true;
    for (std::size_t w = 0; w < member.value.size(); ++w) {
      equal &= (key[w] & member.mask[w]) == member.value[w];
    }
    if (equal) return true;
  }
  return false;
}

}  // namespace tiercast::engine
