// Compiles pipelines: tables, conditions and the graph between them.
#include <algorithm>
#include <limits>

#include "dataplane/engine/arch/architecture.h"
#include "dataplane/engine/load/compiler.h"

namespace tiercast::engine {

void Compiler::compile_pipelines() {
  for (const Json& pipeline : root_.at("pipelines").items()) compile_pipeline(pipeline);
  // A packet passes each node at most once, because P4's controls have no loops.
  std::vector<char> state(image_.nodes.size());  // 0: not seen, 1: on the current path, 2: done
  refuse_loops(image_.ingress_start, state);
  refuse_loops(image_.egress_start, state);
}

void Compiler::refuse_loops(std::uint32_t start, std::vector<char>& state) const {
  struct Visit {
    std::uint32_t node;
    std::vector<std::uint32_t> next;
  };
  const auto visit = [&](std::uint32_t index) {
    state[index] = 1;
    const Node& node = image_.nodes[index];
    if (node.kind != Node::Kind::kTable) return Visit{index, {node.if_true, node.if_false}};
    Visit v{index, image_.tables[node.index].next};
    v.next.push_back(image_.tables[node.index].next_without_action);
    return v;
  };
  std::vector<Visit> path;
  if (start != kNone && state[start] == 0) path.push_back(visit(start));
  while (!path.empty()) {
    Visit& last = path.back();
    if (last.next.empty()) {
      state[last.node] = 2;
      path.pop_back();
      continue;
    }
    const std::uint32_t next = last.next.back();
    last.next.pop_back();
    if (next == kNone || state[next] == 2) continue;
    if (state[next] == 1) root_.at("pipelines").refuse("a loop in the control flow");
    path.push_back(visit(next));
  }
}

std::uint32_t Compiler::node_named(const Json* name, const NameMap& nodes) const {
  if (name == nullptr) return kNone;  // the end of the pipeline
  const auto found = nodes.find(name->text());
  if (found == nodes.end()) name->refuse("unknown control-flow node `" + name->text() + "`");
  return found->second;
}

void Compiler::compile_pipeline(const Json& node) {
  const std::string pipeline = node.at("name").text();
  if (pipeline != "ingress" && pipeline != "egress") {
    node.refuse("pipeline `" + pipeline + "`: there are ingress and egress");
  }
  for (const Json& profile : node.list("action_profiles")) {
    compile_action_profile(profile);
  }
  NameMap nodes;
  std::uint32_t next_index = static_cast<std::uint32_t>(image_.nodes.size());
  for (const char* kind : {"tables", "conditionals", "action_calls"}) {
    for (const Json& n : node.list(kind)) {
      if (!nodes.emplace(n.at("name").text(), next_index++).second) {
        n.refuse("two control-flow nodes are named `" + n.at("name").text() + "`");
      }
    }
  }
  for (const Json& t : node.list("tables")) {
    image_.nodes.push_back(
        {Node::Kind::kTable, static_cast<std::uint32_t>(image_.tables.size()), {}, kNone, kNone});
    compile_table(t);
    table_next(t, image_.tables.back(), nodes);
  }
  for (const Json& c : node.list("conditionals")) {
    Node n{Node::Kind::kCondition, 0, condition(c.at("expression")), kNone, kNone, place(c)};
    n.if_true = node_named(c.find("true_next"), nodes);
    n.if_false = node_named(c.find("false_next"), nodes);
    image_.nodes.push_back(n);
  }
  for (const Json& call : node.list("action_calls")) {
    const std::uint32_t action = action_with_id(call.at("action_id"));
    if (!image_.actions[action].parameters.empty()) call.refuse("a call without its arguments");
    image_.nodes.push_back(
        {Node::Kind::kAction, action, {}, node_named(call.find("next_node"), nodes), kNone});
  }
  const std::uint32_t start = node_named(node.find("init_table"), nodes);
  const bool other_image =
      image_.architecture->parses_twice() && (pipeline == "egress") != is_egress();
  if (!other_image) (pipeline == "ingress" ? image_.ingress_start : image_.egress_start) = start;
}

Key Compiler::table_key(const Json& node, const Json& table) const {
  Key key{};
  const std::string kind = node.at("match_type").text();
  if (kind == "valid") {
    const Json& target = node.at("target");
    key.cell = image_.headers[header_named(target.is_array() ? target.item(0) : target)].valid_cell;
    key.width = 1;
    key.kind = MatchKind::kExact;
    return key;
  }
  const Field field = field_at(node.at("target"));
  if (field.is_varbit) node.refuse("a varbit field as a table's key");
  key.cell = field.cell;
  key.width = field.width;
  if (kind == "exact") {
    key.kind = MatchKind::kExact;
  } else if (kind == "lpm") {
    key.kind = MatchKind::kLpm;
  } else if (kind == "ternary") {
    key.kind = MatchKind::kTernary;
  } else if (kind == "range") {
    key.kind = MatchKind::kRange;
  } else if (kind == "optional") {
    key.kind = MatchKind::kOptional;
  } else {
    node.refuse("match kind `" + kind + "` of table `" + table.at("name").text() +
                "` is not supported (exact, lpm, ternary, range, optional)");
  }
  if (const Json* mask = node.find("mask")) {
    const Number n = number(*mask);
    if (n.bits > key.width) mask->refuse("a mask wider than its field");
    key.mask = n.magnitude;
    key.mask.resize(cells_for(key.width));
  }
  return key;
}

void Compiler::compile_table(const Json& node) {
  Table table;
  table.name = node.at("name").text();
  table.source = node.source();
  TableInfo info;
  info.name = table.name;
  table.supports_timeout = info.supports_timeout = node.boolean_or("support_timeout", false);
  unsigned lpm_fields = 0;
  for (const Json& k : node.at("key").items()) {
    Key key = table_key(k, node);
    key.word = table.key_words;
    table.key_words += key.words();
    if (key.kind == MatchKind::kLpm) ++lpm_fields;
    if (key.kind != MatchKind::kExact && key.kind != MatchKind::kLpm) info.needs_priority = true;
    const Json* name = k.find("name");
    const Json& target = k.at("target");
    const std::string fallback =
        target.is_array() ? target.item(0).text() + "." + target.item(1).text() : target.text();
    info.keys.push_back({name == nullptr ? fallback : name->text(), key.kind, key.width});
    table.keys.push_back(std::move(key));
  }
  if (lpm_fields > 1) node.refuse("table `" + table.name + "` has more than one lpm field");
  for (const Json& id : node.at("action_ids").items()) {
    table.actions.push_back(action_with_id(id));
    info.actions.push_back(image_.actions[table.actions.back()].name);
  }
  table.max_size = static_cast<std::uint64_t>(node.at("max_size").integer(0, INT64_MAX));
  table.direct_counter = node.boolean_or("with_counters", false);
  for (const CounterInfo& counter : image_.counter_infos) {
    if (counter.table == table.name) info.direct_counter = counter.name;
  }
  table_meter(node, table, info);
  table_profile(node, table, info);
  table_default(node, table);
  table_entries(node, table, info);
  // p4c puts the number of the entries in place of the table's size, which P4Info alone has then.
  if (!info.initial_entries.empty()) table.max_size = std::numeric_limits<std::uint64_t>::max();
  info.max_size = table.max_size;
  info.const_default = table.const_default;
  image_.tables.push_back(std::move(table));
  image_.table_infos.push_back(std::move(info));
}

// In the JSON, the smallest number has the highest priority. p4c's file of entries for P4Runtime
// has the same numbers from the last entry on, from 1.
void Compiler::table_entries(const Json& node, const Table& table, TableInfo& info) {
  const auto priority = [](const Json& entry) {
    return static_cast<std::int32_t>(entry.at("priority").integer(0, INT32_MAX - 1));
  };
  std::int32_t lowest = 0;
  for (const Json& entry : node.list("entries")) {
    info.initial_entries.push_back(table_entry(entry, table));
    if (info.needs_priority) lowest = std::max(lowest, priority(entry));
  }
  if (!info.needs_priority) return;
  std::size_t i = 0;
  for (const Json& entry : node.list("entries")) {
    info.initial_entries[i++].priority = lowest + 1 - priority(entry);
  }
}

void Compiler::table_meter(const Json& node, Table& table, TableInfo& info) {
  const Json* name = node.find("direct_meters");
  if (name == nullptr) return;
  const auto found = meters_.find(name->text());
  if (found == meters_.end()) name->refuse("unknown meter `" + name->text() + "`");
  table.direct_meter = found->second;
  info.direct_meter = name->text();
  const Json& target = root_.at("meter_arrays").item(found->second).at("result_target");
  table.meter_target = field_at(target);
  if (table.meter_target.is_varbit) target.refuse("a meter's colour in a varbit field");
}

void Compiler::table_profile(const Json& node, Table& table, TableInfo& info) {
  const Json& type = node.at("type");
  if (type.text() == "simple") return;
  if (type.text() != "indirect" && type.text() != "indirect_ws") {
    type.refuse("table `" + table.name + "` of type `" + type.text() +
                "` (simple, indirect, indirect_ws)");
  }
  const Json& name = node.at("action_profile");
  const auto found = profiles_.find(name.text());
  if (found == profiles_.end()) name.refuse("unknown action profile `" + name.text() + "`");
  if (!node.list("entries").empty()) {
    node.refuse("entries in table `" + table.name + "`, which has an action profile");
  }
  table.profile = found->second;
  info.action_profile = name.text();
  auto& known = image_.profiles[table.profile].actions;
  for (const std::uint32_t action : table.actions) {
    if (std::find(known.begin(), known.end(), action) == known.end()) known.push_back(action);
  }
}

void Compiler::table_default(const Json& node, Table& table) {
  const Json* entry = node.find("default_entry");
  if (entry == nullptr) return;
  const std::uint32_t action = action_with_id(entry->at("action_id"));
  const auto found = std::find(table.actions.begin(), table.actions.end(), action);
  if (found == table.actions.end()) entry->refuse("the default action is not one of the table's");
  table.default_action = static_cast<std::uint32_t>(found - table.actions.begin());
  table.default_arguments = arguments(entry->at("action_data"), image_.actions[action]);
  table.const_default = entry->boolean_or("action_const", false);
}

std::vector<Cell> Compiler::arguments(const Json& data, const Action& action) const {
  if (data.items().size() != action.parameters.size()) {
    data.refuse("action `" + action.name + "` takes " + std::to_string(action.parameters.size()) +
                " arguments, found " + std::to_string(data.items().size()));
  }
  std::vector<Cell> cells(action.argument_cells);
  for (std::size_t i = 0; i < action.parameters.size(); ++i) {
    const Number n = number(data.item(i));
    const auto& parameter = action.parameters[i];
    if (n.negative || n.bits > parameter.width) data.item(i).refuse("an argument out of range");
    for (std::size_t c = 0; c < n.magnitude.size() && c < cells_for(parameter.width); ++c) {
      cells[parameter.cell + c] = n.magnitude[c];
    }
  }
  return cells;
}

TableEntry Compiler::table_entry(const Json& node, const Table& table) const {
  TableEntry entry;
  const auto& keys = node.at("match_key").items();
  if (keys.size() != table.keys.size()) node.refuse("an entry with the wrong number of key fields");
  for (std::size_t i = 0; i < keys.size(); ++i) {
    switch (table.keys[i].kind) {
      case MatchKind::kExact: {
        const Json& key = keys[i].at("key");
        entry.match.push_back(FieldMatch::exact(
            key.is_string() ? bytes(key) : Bytes(1, key.boolean() ? '\1' : '\0')));
        break;
      }
      case MatchKind::kLpm:
        entry.match.push_back(FieldMatch::lpm(
            bytes(keys[i].at("key")),
            static_cast<unsigned>(keys[i].at("prefix_length").integer(0, table.keys[i].width))));
        break;
      case MatchKind::kTernary:
        entry.match.push_back(
            FieldMatch::ternary(bytes(keys[i].at("key")), bytes(keys[i].at("mask"))));
        break;
      case MatchKind::kRange:
        entry.match.push_back(
            FieldMatch::range(bytes(keys[i].at("start")), bytes(keys[i].at("end"))));
        break;
      case MatchKind::kOptional:
        entry.match.push_back(keys[i].find("key") == nullptr
                                  ? FieldMatch::dont_care()
                                  : FieldMatch::exact(bytes(keys[i].at("key"))));
        break;
    }
  }
  const Json& call = node.at("action_entry");
  const std::uint32_t action = action_with_id(call.at("action_id"));
  if (std::find(table.actions.begin(), table.actions.end(), action) == table.actions.end()) {
    call.refuse("the action is not one of the table's");
  }
  entry.action.name = image_.actions[action].name;
  arguments(call.at("action_data"), image_.actions[action]);
  for (const Json& argument : call.at("action_data").items()) {
    entry.action.arguments.push_back(bytes(argument));
  }
  return entry;
}

void Compiler::table_next(const Json& node, Table& table, const NameMap& nodes) {
  const Json& next = node.at("next_tables");
  table.next_without_action = node_named(node.find("base_default_next"), nodes);
  table.next_by_hit = next.find("__HIT__") != nullptr || next.find("__MISS__") != nullptr;
  if (table.next_by_hit) {
    table.next = {node_named(next.find("__HIT__"), nodes),
                  node_named(next.find("__MISS__"), nodes)};
    table.next_without_action = table.next[1];
    return;
  }
  for (std::uint32_t action : table.actions) {
    table.next.push_back(node_named(next.find(image_.actions[action].name), nodes));
  }
}

std::uint32_t Compiler::action_with_id(const Json& id) const {
  const auto found = actions_.find(id.integer(0, INT32_MAX));
  if (found == actions_.end()) id.refuse("no action with this id");
  return found->second;
}

}  // namespace tiercast::engine
