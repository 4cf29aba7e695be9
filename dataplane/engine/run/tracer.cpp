#include "dataplane/engine/run/tracer.h"

#include <algorithm>

#include "dataplane/engine/control/byte_values.h"

namespace tiercast::engine {
namespace {

constexpr int kMaxSteps = 4096;  // steps of one action that are traced one by one

std::string hex(const Cell* cells, unsigned width) { return to_hex(to_bytes(cells, width)); }

std::string match_text(const FieldMatch& match, MatchKind kind) {
  if (match.any) return "*";
  std::string value = to_hex(match.value);
  switch (kind) {
    case MatchKind::kExact:
    case MatchKind::kOptional: return value;
    case MatchKind::kLpm: return value + "/" + std::to_string(match.prefix_length);
    case MatchKind::kTernary: return value + " & " + to_hex(match.mask);
    case MatchKind::kRange: return value + " .. " + to_hex(match.mask);
  }
  return value;
}

TraceMap entry_text(const TableInfo& info, const TableEntry& entry) {
  TraceMap map;
  for (std::size_t i = 0; i < entry.match.size(); ++i) {
    map.emplace_back(info.keys[i].name, match_text(entry.match[i], info.keys[i].kind));
  }
  if (entry.priority != 0) map.emplace_back("priority", std::to_string(entry.priority));
  if (entry.member) map.emplace_back("member", std::to_string(*entry.member));
  if (entry.group) map.emplace_back("group", std::to_string(*entry.group));
  if (entry.action_set) map.emplace_back("actions", std::to_string(entry.action_set->size()));
  return map;
}

std::string decimal(const Cell* cells, unsigned width) {
  return width <= kCellBits ? std::to_string(*cells) : hex(cells, width);
}

// "port_policy.p4:133 port_marking: egress_port 2 -> threshold_marking(threshold 20)"
std::string table_line(const Image& image, const Table& layout, const TableInfo& info,
                       const PacketState& state, const MatchTable::Outcome& outcome) {
  std::string text = layout.source.empty() ? "" : layout.source + " ";
  text += layout.name + ":";
  for (std::size_t i = 0; i < layout.keys.size(); ++i) {
    const Key& key = layout.keys[i];
    text +=
        (i == 0 ? " " : ", ") + info.keys[i].name + " " + decimal(state.phv + key.cell, key.width);
  }
  text += outcome.hit ? " -> " : " -> no entry";
  if (outcome.action == kNone) return text;
  const std::uint32_t action = layout.actions[outcome.action];
  const ActionInfo& declared = image.action_infos[action];
  text += (outcome.hit ? "" : ", ") + declared.name + "(";
  for (std::size_t i = 0; i < declared.parameters.size(); ++i) {
    const ActionParameterLayout& parameter = image.actions[action].parameters[i];
    text += (i == 0 ? "" : ", ") + declared.parameters[i].name + " " +
            decimal(outcome.arguments + parameter.cell, parameter.width);
  }
  return text + ")";
}

}  // namespace

void Tracer::choose(Packet& packet, std::uint32_t port) {
  if (!sink_->wants(port, packet.buffer->frame())) return;
  packet.trace = ++packets_;
  packet.copy = 0;
}

void Tracer::number_copy(const Packet& original, Packet& copy) {
  copy.trace = original.trace;
  copy.copy = ++copies_;
}

void Tracer::report(std::uint64_t trace, std::uint32_t copy, std::string_view kind,
                    std::int64_t time_ns,
                    std::vector<std::pair<std::string_view, TraceValue>> fields) {
  if (sink_ != nullptr) sink_->event({kind, time_ns, trace, copy, std::move(fields)});
}

const DecisionPlan& Tracer::plan(const Image& image) {
  for (const auto& one : plans_) {
    if (&one->image == &image) return *one;
  }
  return *plans_.emplace_back(std::make_unique<DecisionPlan>(image));
}

Tracer::Run::Run(Tracer& tracer, const Image& image, const Packet& packet, const char* pipeline,
                 std::int64_t time_ns)
    : tracer_(tracer),
      packet_(packet),
      pipeline_(pipeline),
      time_ns_(time_ns),
      plan_(tracer.plan(image)),
      decision_(plan_) {}

bool Tracer::Run::branch(Machine& machine, const Image& image, std::uint32_t node,
                         PacketState& state) {
  Effects effects;
  const bool taken = machine.interpreter.run(image.nodes[node].condition, state, nullptr, effects);
  decision_.branch(node, taken, std::move(effects));
  if (tracer_.steps()) {
    const Place& place = image.places[image.nodes[node].place];
    tracer_.report(packet_, "branch", time_ns_,
                   {{"pipeline", std::string(pipeline_)},
                    {"source", place.source},
                    {"condition", place.text},
                    {"taken", taken}});
  }
  return taken;
}

void Tracer::Run::table(const Image& image, std::uint32_t node, MatchTable& table,
                        const PacketState& state, const MatchTable::Outcome& outcome,
                        const MatchTable::Entry* entry) {
  const Table& layout = image.tables[image.nodes[node].index];
  // p4c wraps a statement outside an action into such a table. The trace of its steps says enough.
  if (layout.keys.empty() && layout.actions.size() == 1) return;
  const TableInfo& info = image.table_infos[image.nodes[node].index];
  TraceMap key;
  for (std::size_t i = 0; i < layout.keys.size(); ++i) {
    key.emplace_back(info.keys[i].name, hex(state.phv + layout.keys[i].cell, layout.keys[i].width));
  }
  decision_.table(node, state.phv, table_line(image, layout, info, state, outcome));
  if (!tracer_.steps()) return;
  std::vector<std::pair<std::string_view, TraceValue>> fields = {
      {"pipeline", std::string(pipeline_)},
      {"table", layout.name},
      {"source", layout.source},
      {"key", std::move(key)},
      {"hit", outcome.hit},
  };
  if (entry != nullptr) fields.emplace_back("entry", entry_text(info, table.describe(*entry, 0)));
  if (outcome.action != kNone) {
    const std::uint32_t action = layout.actions[outcome.action];
    const ActionInfo& declared = image.action_infos[action];
    TraceMap data;
    for (std::size_t i = 0; i < declared.parameters.size(); ++i) {
      const ActionParameterLayout& parameter = image.actions[action].parameters[i];
      data.emplace_back(declared.parameters[i].name,
                        hex(outcome.arguments + parameter.cell, parameter.width));
    }
    fields.emplace_back("action", declared.name);
    fields.emplace_back("data", std::move(data));
  }
  tracer_.report(packet_, "table", time_ns_, std::move(fields));
}

void Tracer::Run::run(Machine& machine, const Image& image, std::uint32_t node,
                      const Action& action, PacketState& state, const Cell* arguments) {
  auto statement =
      std::partition_point(image.statements.begin(), image.statements.end(),
                           [&](const Statement& s) { return s.code.begin < action.code.begin; });
  std::uint32_t pc = action.code.begin;
  std::vector<Cell> before(image.phv_cells);
  const bool all = tracer_.steps();
  int steps = 0;
  while (pc < action.code.end && !state.exited) {
    // A loop this long continues untraced, and ends where loops end.
    if (++steps > kMaxSteps) {
      machine.interpreter.run_part({pc, action.code.end}, state, arguments);
      return;
    }
    // Statements are in code order, and a jump goes to the beginning of a statement.
    while (statement != image.statements.begin() && pc < statement->code.begin) --statement;
    while (statement->code.end <= pc) ++statement;
    if (all) {
      std::copy_n(state.phv, image.phv_cells, before.begin());
    } else {
      for (const std::uint32_t cell : plan_.watched) before[cell] = state.phv[cell];
    }
    Effects effects;
    pc = machine.interpreter.run_part({pc, statement->code.end}, state, arguments, effects);
    const bool marks =
        std::any_of(plan_.ecn.begin(), plan_.ecn.end(), [&](const DecisionPlan::EcnField& field) {
          return field.is_congestion(state.phv) && !field.is_congestion(before.data());
        });
    decision_.statement(node, action, *statement, std::move(effects), state.phv, marks);
    step(image, action, *statement, before, state.phv, marks);
  }
}

void Tracer::Run::step(const Image& image, const Action& action, const Statement& statement,
                       const std::vector<Cell>& before, const Cell* after, bool marks) {
  const Place& place = image.places[statement.place];
  const bool drops = std::any_of(image.code.begin() + statement.code.begin,
                                 image.code.begin() + statement.code.end,
                                 [](const Instruction& i) { return i.op == Op::kMarkToDrop; });
  const std::uint32_t fate = image.verdict.drop != 0 ? image.verdict.drop : image.verdict.port;
  if (before[fate] != after[fate] || drops) {
    dropped_by_ = action.name;
    dropped_at_ = place.source;
  }
  if (!tracer_.steps()) return;
  TraceMap changes;
  for (const Header& header : image.headers) {
    if (before[header.valid_cell] != after[header.valid_cell] && !header.metadata) {
      changes.emplace_back(header.name,
                           after[header.valid_cell] != 0 ? "becomes valid" : "becomes invalid");
    }
    for (const Field& field : header.fields) {
      if (field.is_varbit || field.name == "$valid$") continue;
      const Cell* old = before.data() + field.cell;
      const Cell* now = after + field.cell;
      if (std::equal(old, old + cells_for(field.width), now)) continue;
      changes.emplace_back(header.name + "." + field.name,
                           hex(old, field.width) + " -> " + hex(now, field.width));
    }
  }
  std::vector<std::pair<std::string_view, TraceValue>> fields = {
      {"pipeline", std::string(pipeline_)},
      {"action", action.name},
      {"source", place.source},
      {"text", place.text},
      {"changes", std::move(changes)},
  };
  if (marks) fields.emplace_back("mark", true);
  tracer_.report(packet_, "step", time_ns_, std::move(fields));
}

void Tracer::Run::decide(Outcome outcome) {
  const Decision::Cut cut = decision_.cut(outcome);
  const char* const name = outcome == Outcome::kMarked    ? "marked"
                           : outcome == Outcome::kDropped ? "dropped"
                                                          : "passed";
  tracer_.report(packet_, "decision", time_ns_,
                 {{"pipeline", std::string(pipeline_)},
                  {"outcome", std::string(name)},
                  {"by", cut.by},
                  {"source", cut.source},
                  {"lines", cut.lines},
                  {"registers", decision_.registers()}});
}

void Tracer::Run::drop(std::string_view reason) {
  tracer_.report(packet_, "drop", time_ns_,
                 {{"where", std::string(pipeline_)},
                  {"reason", std::string(reason)},
                  {"by", dropped_by_},
                  {"source", dropped_at_}});
}

}  // namespace tiercast::engine
