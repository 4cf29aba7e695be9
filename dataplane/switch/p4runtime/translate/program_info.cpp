#include "dataplane/switch/p4runtime/translate/program_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "dataplane/switch/p4runtime/translate/errors.h"

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

// The object of the program with the name that P4Info gives.
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

template <class Map>
const auto& find_by_name(const Map& map, std::string_view name) {
  for (const auto& [id, item] : map)
    if (item.name == name) return item;
  throw RequestError(grpc::INTERNAL, fmt::format("P4Info has no {}", name));
}

engine::MatchKind kind_of(const config::MatchField& field, const std::string& place) {
  switch (field.match_type()) {
    case config::MatchField::EXACT: return engine::MatchKind::kExact;
    case config::MatchField::LPM: return engine::MatchKind::kLpm;
    case config::MatchField::TERNARY: return engine::MatchKind::kTernary;
    case config::MatchField::RANGE: return engine::MatchKind::kRange;
    case config::MatchField::OPTIONAL: return engine::MatchKind::kOptional;
    default:
      throw RequestError(
          grpc::INVALID_ARGUMENT,
          fmt::format("{}: match field {} has an unknown match type", place, field.id()));
  }
}

using Shape = ProgramInfo::DigestShape;

// A digest's type. P4 cannot declare a type that contains itself, but a P4Info can, so what is read
// is bounded.
class ShapeReader {
 public:
  explicit ShapeReader(const config::P4TypeInfo& types) : types_(types) {}

  // Throws std::invalid_argument, which says what is not supported, and RequestError for a
  // type that is too large.
  Shape read(const config::P4DataTypeSpec& type) {
    count();
    Shape shape;
    switch (type.type_spec_case()) {
      case config::P4DataTypeSpec::kBitstring: return bits(type.bitstring());
      case config::P4DataTypeSpec::kBool: shape.kind = Shape::Kind::kBool; return shape;
      case config::P4DataTypeSpec::kTuple:
        shape.kind = Shape::Kind::kTuple;
        for (const auto& member : type.tuple().members()) shape.members.push_back(read(member));
        return shape;
      case config::P4DataTypeSpec::kStruct:
        shape.kind = Shape::Kind::kStruct;
        for (const auto& member : named(types_.structs(), type.struct_().name()).members())
          shape.members.push_back(read(member.type_spec()));
        return shape;
      case config::P4DataTypeSpec::kHeader:
        shape.kind = Shape::Kind::kHeader;
        for (const auto& member : named(types_.headers(), type.header().name()).members())
          shape.members.push_back(bits(member.type_spec()));
        return shape;
      case config::P4DataTypeSpec::kNewType: {
        const auto& representation = named(types_.new_types(), type.new_type().name());
        return representation.has_original_type() ? read(representation.original_type()) : shape;
      }
      default:
        throw std::invalid_argument(
            "it has a field that is not bit<W>, int<W>, bool, struct, tuple or header");
    }
  }

 private:
  static constexpr std::size_t kMaxParts = 1024;  // fields, and types that contain others

  void count() {
    if (++parts_ > kMaxParts)
      throw invalid(fmt::format("its type contains itself, or has more than {} parts", kMaxParts));
  }
  Shape bits(const config::P4BitstringLikeTypeSpec& type) {
    count();
    if (type.has_varbit()) throw std::invalid_argument("it has a varbit field");
    Shape shape;
    if (type.has_int_()) shape.int_width = static_cast<unsigned>(type.int_().bitwidth());
    return shape;
  }
  template <class Map>
  static const typename Map::mapped_type& named(const Map& map, const std::string& name) {
    const auto found = map.find(name);
    if (found == map.end()) throw std::invalid_argument("P4Info describes no type " + name);
    return found->second;
  }

  const config::P4TypeInfo& types_;
  std::size_t parts_ = 0;
};

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
  add_meters(info);
  for (const config::ActionProfile& profile : info.action_profiles()) add_profile(profile);
  for (const config::Digest& digest : info.digests()) add_digest(digest, info.type_info());
  for (const config::ValueSet& set : info.value_sets()) add_value_set(set);
}

std::size_t ProgramInfo::DigestShape::fields() const {
  if (kind == Kind::kBits || kind == Kind::kBool) return 1;
  std::size_t sum = 0;
  for (const DigestShape& member : members) sum += member.fields();
  return sum;
}

void ProgramInfo::add_meters(const config::P4Info& info) {
  for (const config::Meter& meter : info.meters()) {
    const auto& array = find_in_program(program_->meters(), meter.preamble().name(), "meter");
    Array& added = meters_[meter.preamble().id()];
    added = {meter.preamble().id(), array.name, array.size, 0, meter.spec().type()};
  }
  for (const config::DirectMeter& meter : info.direct_meters()) {
    const auto table = tables_.find(meter.direct_table_id());
    if (table == tables_.end()) continue;
    table->second.direct_meter = meter.preamble().id();
    table->second.meter_type = meter.spec().type();
  }
}

void ProgramInfo::add_profile(const config::ActionProfile& info) {
  const auto& known =
      find_in_program(program_->action_profiles(), info.preamble().name(), "action profile");
  ActionProfile& profile = profiles_[info.preamble().id()];
  profile.id = info.preamble().id();
  profile.name = known.name;
  profile.has_selector = known.selector;
  profile.size = info.size() > 0 ? static_cast<std::uint64_t>(info.size()) : 0;
  profile.group_size =
      info.max_group_size() > 0 ? static_cast<std::uint64_t>(info.max_group_size()) : 0;
  profile.counts_weights = !info.has_sum_of_members();
  profile.max_weight = info.sum_of_members().max_member_weight();
  profile.weights_disallowed = info.weights_disallowed();
  for (auto& [id, table] : tables_) {
    if (table.action_profile == profile.id) profile.actions = table.actions;
  }
}

void ProgramInfo::add_digest(const config::Digest& info, const config::P4TypeInfo& types) {
  const auto& known = find_in_program(program_->digests(), info.preamble().name(), "digest");
  Digest& digest = digests_[info.preamble().id()];
  digest.id = info.preamble().id();
  digest.name = known.name;
  try {
    digest.shape = ShapeReader(types).read(info.type_spec());
    if (digest.shape.fields() != known.widths.size())
      digest.unsupported = fmt::format("P4Info has {} fields, the program {}",
                                       digest.shape.fields(), known.widths.size());
  } catch (const std::invalid_argument& error) {
    digest.unsupported = error.what();
  } catch (const RequestError& error) {
    throw RequestError(error.code(),
                       fmt::format("P4Info: digest {}: {}", known.name, error.what()));
  }
}

void ProgramInfo::add_value_set(const config::ValueSet& info) {
  const auto& known = find_in_program(program_->value_sets(), info.preamble().name(), "value set");
  ValueSet& set = value_sets_[info.preamble().id()];
  set.id = info.preamble().id();
  set.name = known.name;
  set.size = static_cast<std::uint64_t>(std::max(info.size(), 0));
  for (const config::MatchField& field : info.match()) {
    set.fields.push_back({field.id(), field.name(), kind_of(field, "value set " + set.name),
                          static_cast<unsigned>(field.bitwidth()), false});
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
  table.initial_entries = known.initial_entries;
  table.is_const = info.is_const_table();
  table.const_default = info.const_default_action_id() != 0 || known.const_default;
  table.has_idle_timeout = info.idle_timeout_behavior() != config::Table::NO_TIMEOUT;
  table.action_profile = info.implementation_id();
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

const ProgramInfo::Array& ProgramInfo::meter(std::uint32_t id) const {
  return find_id(meters_, id, "meter_id");
}

const ProgramInfo::ActionProfile& ProgramInfo::action_profile(std::uint32_t id) const {
  return find_id(profiles_, id, "action_profile_id");
}

const ProgramInfo::ValueSet& ProgramInfo::value_set(std::uint32_t id) const {
  return find_id(value_sets_, id, "value_set_id");
}

const ProgramInfo::Digest& ProgramInfo::digest(std::uint32_t id) const {
  try {
    return find_id(digests_, id, "digest_id");
  } catch (const RequestError& error) {
    throw RequestError(grpc::NOT_FOUND, error.what());
  }
}

const ProgramInfo::Table& ProgramInfo::table(std::string_view name) const {
  return find_by_name(tables_, name);
}

const ProgramInfo::Digest& ProgramInfo::digest(std::string_view name) const {
  return find_by_name(digests_, name);
}

const ProgramInfo::ActionUse& ProgramInfo::action(const ActionUses& actions, std::uint32_t id,
                                                  const std::string& place) {
  return find_id(actions, id, fmt::format("{}: action_id", place));
}

const ProgramInfo::Action& ProgramInfo::action(const ActionUses& actions, const std::string& name,
                                               const std::string& place) {
  for (const auto& [id, use] : actions)
    if (use.action->name == name) return *use.action;
  throw RequestError(grpc::INTERNAL, fmt::format("{}: P4Info has no action {}", place, name));
}

}  // namespace tiercast::vswitch
