// Compiles the parser: states with operations, a key, and transitions that are tried in order.
#include <algorithm>

#include "dataplane/engine/image/limits.h"
#include "dataplane/engine/load/compiler.h"

namespace tiercast::engine {

void Compiler::compile_parsers() {
  const Json& ours = own("parsers", "parser");
  // The other image's parser, too, is compiled, so that everything has the same number in both.
  for (const Json& parser : root_.at("parsers").items()) {
    std::vector<ParserState> states;
    const std::uint32_t start = compile_parser(parser, states);
    if (&parser != &ours) continue;
    image_.parser_states = std::move(states);
    image_.parser_start = start;
  }
}

std::uint32_t Compiler::compile_parser(const Json& parser, std::vector<ParserState>& compiled) {
  NameMap states;
  for (const Json& node : parser.at("parse_states").items()) {
    if (!states.emplace(node.at("name").text(), states.size()).second) {
      node.refuse("two parser states are named `" + node.at("name").text() + "`");
    }
  }
  for (const Json& node : parser.at("parse_states").items()) {
    ParserState state;
    state.name = node.at("name").text();
    state.ops.begin = here();
    for (const Json& op : node.at("parser_ops").items()) parser_operation(op);
    state.ops.end = here();
    for (const Json& part : node.at("transition_key").items()) {
      state.key.push_back(parser_key(part));
      state.key_cells += state.key.back().cells;
      if (state.key_cells > kMaxParserKeyCells) part.refuse("a select on more than 64 cells");
    }
    for (const Json& t : node.at("transitions").items()) transition(t, state, states);
    compiled.push_back(std::move(state));
  }
  const Json& start = parser.at("init_state");
  const auto found = states.find(start.text());
  if (found == states.end()) start.refuse("unknown parser state `" + start.text() + "`");
  return found->second;
}

void Compiler::extract(const Json& node, bool varbit) {
  const Json& parameters = node.at("parameters");
  const Json& what = parameters.item(0);
  const std::string type = what.at("type").text();
  const Json& name = what.at("value");
  if (varbit) value(parameters.item(1));
  if (type == "regular") {
    const std::uint32_t header = header_named(name);
    if (image_.headers[header].metadata) name.refuse("an extraction into metadata");
    if (varbit != (image_.headers[header].varbit != kNone)) {
      node.refuse(
          "header `" + name.text() +
          (varbit ? "` has no varbit field" : "` has a varbit field: its length is needed"));
    }
    emit(varbit ? Op::kExtractVarbit : Op::kExtract, header);
  } else if (type == "stack") {
    const std::uint32_t stack = stack_named(name, StackOf::kHeaders);
    if (varbit != (image_.headers[image_.stacks[stack].headers[0]].varbit != kNone)) {
      node.refuse("the varbit length does not fit stack `" + name.text() + "`");
    }
    emit(varbit ? Op::kExtractStackVarbit : Op::kExtractStack, stack);
  } else if (type == "union_stack") {
    const std::uint32_t stack = stack_named(name.item(0), StackOf::kUnions);
    const auto& members = image_.unions[image_.stacks[stack].headers[0]].headers;
    for (std::uint32_t m = 0; m < members.size(); ++m) {
      if (!image_.headers[members[m]].name.ends_with("." + name.item(1).text())) continue;
      if (varbit != (image_.headers[members[m]].varbit != kNone)) {
        node.refuse("the varbit length does not fit member `" + name.item(1).text() + "`");
      }
      return emit(varbit ? Op::kExtractUnionStackVarbit : Op::kExtractUnionStack, stack, m);
    }
    name.refuse("unknown union member `" + name.item(1).text() + "`");
  } else {
    what.refuse("`" + node.at("op").text() + "` of type `" + type + "` is not supported");
  }
}

void Compiler::parser_operation(const Json& node) {
  const std::string op = node.at("op").text();
  const Json& parameters = node.at("parameters");
  if (op == "extract" || op == "extract_VL") {
    extract(node, op == "extract_VL");
  } else if (op == "set") {
    assign(parameters.item(0), parameters.item(1));
  } else if (op == "verify") {
    value(parameters.item(0));
    value(parameters.item(1));
    emit(Op::kVerify);
  } else if (op == "advance") {
    value(parameters.item(0));
    emit(Op::kAdvance);
  } else if (op == "shift") {
    const auto bytes = static_cast<Cell>(parameters.item(0).integer(0, 65535));
    constant({false, {bytes * 8}, 32});
    emit(Op::kAdvance);
  } else if (op == "primitive") {
    const std::string inner = parameters.item(0).at("op").text();
    if (inner.starts_with("_jump")) node.refuse("`" + inner + "` in a parser");
    return primitive(parameters.item(0));
  } else {
    node.refuse("parser operation `" + op + "` is not supported");
  }
  finish();
}

ParserKey Compiler::parser_key(const Json& node) {
  ParserKey key{};
  key.code.begin = here();
  const std::string type = node.at("type").text();
  const Json& v = node.at("value");
  if (type == "field") {
    const Field field = field_at(v);
    key.width = field.width;
  } else if (type == "lookahead") {
    key.width = static_cast<std::uint32_t>(v.item(1).integer(1, kMaxFieldBits));
  } else if (type == "stack_field") {
    const HeaderStack& stack = image_.stacks[stack_named(v.item(0), StackOf::kHeaders)];
    const std::uint32_t header = stack.headers[0];
    key.width = image_.headers[header].fields[field_index(header, v.item(1))].width;
    if (key.width > kCellBits) node.refuse("a select on a stack's field wider than 64 bits");
  } else if (type == "union_stack_field") {
    const HeaderStack& stack = image_.stacks[stack_named(v.item(0), StackOf::kUnions)];
    for (std::uint32_t header : image_.unions[stack.headers[0]].headers) {
      if (image_.headers[header].name.ends_with("." + v.item(1).text())) {
        key.width = image_.headers[header].fields[field_index(header, v.item(2))].width;
      }
    }
    if (key.width > kCellBits) node.refuse("a select on a stack's field wider than 64 bits");
  } else {
    node.refuse("a select on a value of type `" + type + "` is not supported");
  }
  value(node);
  key.cells = cells_for(key.width);
  // A wide part is read directly from its place. Its single instruction is not run; it only names
  // the place.
  wide_ = false;
  finish();
  key.code.end = here();
  return key;
}

void Compiler::transition(const Json& node, ParserState& state, const NameMap& states) {
  ParserTransition t;
  if (const Json* next = node.find("next_state")) {
    const auto found = states.find(next->text());
    if (found == states.end()) next->refuse("unknown parser state `" + next->text() + "`");
    t.next = found->second;
  }
  const std::string type = node.at("type").text();
  if (type == "hexstr") {
    // The constant holds the key's parts one after the other, each padded to whole bytes.
    const Json* masked = node.find("mask");
    Number value = number(node.at("value"));
    if (value.negative) {  // of an int<W>: in two's complement
      value.magnitude.resize(std::max<std::size_t>(value.magnitude.size(), state.key_cells), 0);
      bool carry = true;
      for (Cell& cell : value.magnitude) {
        cell = ~cell + (carry ? 1 : 0);
        carry = carry && cell == 0;
      }
    }
    const Number mask = masked == nullptr ? Number{} : number(*masked);
    unsigned bit = 0;
    const auto cell_at = [](const Number& n, unsigned offset) {
      const std::size_t i = offset / 64;
      Cell v = i < n.magnitude.size() ? n.magnitude[i] >> (offset % 64) : 0;
      if (offset % 64 != 0 && i + 1 < n.magnitude.size()) {
        v |= n.magnitude[i + 1] << (64 - offset % 64);
      }
      return v;
    };
    t.value.resize(state.key_cells);
    t.mask.resize(state.key_cells);
    std::uint32_t word = state.key_cells;
    for (auto part = state.key.rbegin(); part != state.key.rend(); ++part) {
      word -= part->cells;
      for (std::uint32_t c = 0; c < part->cells; ++c) {
        const Cell ones = low_mask(part->width - c * kCellBits);
        t.mask[word + c] = masked == nullptr ? ones : cell_at(mask, bit + c * 64) & ones;
        t.value[word + c] = cell_at(value, bit + c * 64) & t.mask[word + c];
      }
      bit += (part->width + 7) / 8 * 8;
    }
    if (value.bits > bit) node.refuse("a select value wider than its key");
  } else if (type == "parse_vset") {
    const Json& name = node.at("value");
    const auto found = value_sets_.find(name.text());
    if (found == value_sets_.end()) name.refuse("unknown value set `" + name.text() + "`");
    if (node.find("mask") != nullptr) node.refuse("a masked value set");
    t.value_set = found->second;
    std::vector<std::uint32_t> widths;
    std::uint32_t bits = 0;
    for (const ParserKey& part : state.key) {
      widths.push_back(part.width);
      bits += part.width;
    }
    ValueSet& set = image_.value_sets[found->second];
    if (bits != set.bits) {
      node.refuse("value set `" + set.name + "` of " + std::to_string(set.bits) +
                  " bits in a select on " + std::to_string(bits));
    }
    if (set.widths != widths && set.widths.size() > 1) {
      node.refuse("value set `" + set.name + "` in selects on different fields");
    }
    set.widths = widths;
    image_.value_set_infos[found->second].widths.assign(widths.begin(), widths.end());
  } else if (type != "default") {
    node.refuse("a transition of type `" + type + "` is not supported");
  }
  state.transitions.push_back(std::move(t));
}

}  // namespace tiercast::engine
