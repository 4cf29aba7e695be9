#include "dataplane/switch/p4runtime/program_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dataplane/switch/p4runtime/errors.h"

namespace tiercast::vswitch {
namespace {

namespace config = p4::config::v1;

template <class Range>
std::string names_of(const Range& range) {
  std::vector<std::string> names;
  for (const auto& item : range) names.push_back(item.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

template <class Range>
auto* find_name(const Range& range, const std::string& name) {
  const auto found =
      std::find_if(range.begin(), range.end(), [&](const auto& item) { return item.name == name; });
  return found == range.end() ? nullptr : &*found;
}

// The object of the program that P4Info names.
template <class Range>
const auto& find_in_program(const Range& range, const std::string& name, std::string_view kind) {
  const auto* found = find_name(range, name);
  if (!found)
    throw RequestError(grpc::INVALID_ARGUMENT,
                       fmt::format("P4Info's {} {} is not in the program, which has: {}", kind,
                                   name, names_of(range)));
  return *found;
}

template <class Map>
const auto& find_id(const Map& map, std::uint32_t id, std::string_view kind) {
  const auto found = map.find(id);
  if (found == map.end()) {
    std::vector<std::string> known;
    for (const auto& [known_id, item] : map) known.push_back(fmt::format("{}", known_id));
    throw RequestError(grpc::INVALID_ARGUMENT, fmt::format("{} {} is unknown; valid: {}", kind, id,
                                                           fmt::join(known, ", ")));
  }
  return found->second;
}

unsigned register_width(const config::Register& info) {
  const auto& spec = info.type_spec();
  return spec.has_bitstring() && spec.bitstring().has_bit()
             ? static_cast<unsigned>(spec.bitstring().bit().bitwidth())
             : 0;
}

}  // namespace

ProgramInfo::ProgramInfo(const config::P4Info& info, std::shared_ptr<const engine::Program> program)
    : program_(std::move(program)) {
  add_actions(info);
  for (const config::Table& table : info.tables()) add_table(table);
  for (const config::DirectCounter& counter : info.direct_counters()) {
    const auto table = tables_.find(counter.direct_table_id());
    if (table != tables_.end()) table->second.direct_counter = counter.preamble().id();
  }
  for (const config::Counter& counter : info.counters()) {
    const auto& array = find_in_program(program_->counters(), counter.preamble().name(), "counter");
    counters_[counter.preamble().id()] = {counter.preamble().id(), array.name, array.size, 0};
  }
  for (const config::Register& item : info.registers()) {
    const auto& array = find_in_program(program_->registers(), item.preamble().name(), "register");
    registers_[item.preamble().id()] = {item.preamble().id(), array.name, array.size,
                                        register_width(item)};
  }
}

void ProgramInfo::add_actions(const config::P4Info& info) {
  for (const config::Action& action : info.actions()) {
    Action& added = actions_[action.preamble().id()];
    added.id = action.preamble().id();
    added.name = action.preamble().name();
    const auto& known = find_in_program(program_->actions(), added.name, "action");
    for (const engine::ActionParameter& parameter : known.parameters) {
      const auto found =
          std::find_if(action.params().begin(), action.params().end(),
                       [&](const auto& param) { return param.name() == parameter.name; });
      if (found == action.params().end())
        throw RequestError(
            grpc::INVALID_ARGUMENT,
            fmt::format("action {} has no parameter {} in P4Info", added.name, parameter.name));
      added.parameters.push_back({found->id(), parameter.name, parameter.width});
    }
  }
}

void ProgramInfo::add_table(const config::Table& info) {
  const std::string& name = info.preamble().name();
  const engine::TableInfo& known = find_in_program(program_->tables(), name, "table");
  Table& table = tables_[info.preamble().id()];
  table.id = info.preamble().id();
  table.name = name;
  table.needs_priority = known.needs_priority;
  table.is_const = info.is_const_table() || known.is_const;
  table.const_default = info.const_default_action_id() != 0 || known.const_default;
  table.has_idle_timeout = info.idle_timeout_behavior() != config::Table::NO_TIMEOUT;
  for (const engine::KeyField& key : known.keys) {
    const auto field = std::find_if(info.match_fields().begin(), info.match_fields().end(),
                                    [&](const auto& match) { return match.name() == key.name; });
    if (field == info.match_fields().end())
      throw RequestError(grpc::INVALID_ARGUMENT,
                         fmt::format("table {} has no match field {} in P4Info", name, key.name));
    const bool as_ternary = field->match_type() == config::MatchField::OPTIONAL &&
                            key.kind == engine::MatchKind::kTernary;
    table.fields.push_back({field->id(), key.name,
                            as_ternary ? engine::MatchKind::kOptional : key.kind, key.width,
                            as_ternary});
  }
  for (const config::ActionRef& use : info.action_refs()) {
    table.actions[use.id()] = {&find_id(actions_, use.id(), "P4Info: action"),
                               use.scope() != config::ActionRef::DEFAULT_ONLY,
                               use.scope() != config::ActionRef::TABLE_ONLY};
  }
}

const ProgramInfo::Table& ProgramInfo::table(std::uint32_t id) const {
  return find_id(tables_, id, "table_id");
}

const ProgramInfo::Array& ProgramInfo::counter(std::uint32_t id) const {
  return find_id(counters_, id, "counter_id");
}

const ProgramInfo::Array& ProgramInfo::register_array(std::uint32_t id) const {
  return find_id(registers_, id, "register_id");
}

const ProgramInfo::ActionUse& ProgramInfo::action(const Table& table, std::uint32_t id) {
  return find_id(table.actions, id, fmt::format("table {}: action_id", table.name));
}

const ProgramInfo::Action& ProgramInfo::action(const Table& table, const std::string& name) {
  for (const auto& [id, use] : table.actions)
    if (use.action->name == name) return *use.action;
  throw RequestError(grpc::INTERNAL,
                     fmt::format("table {}: P4Info has no action {}", table.name, name));
}

}  // namespace tiercast::vswitch
