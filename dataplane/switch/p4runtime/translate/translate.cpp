#include "dataplane/switch/p4runtime/translate/translate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "dataplane/engine/api/switch.h"
#include "dataplane/switch/p4runtime/translate/bytestring.h"
#include "dataplane/switch/p4runtime/translate/errors.h"

namespace tiercast::vswitch {
namespace {

using engine::MatchKind;

std::string all_ones(unsigned width) {
  std::string bytes((width + 7) / 8, '\xff');
  if (width % 8 != 0) bytes[0] = static_cast<char>((1u << width % 8) - 1);
  return bytes;
}

// For canonical strings.
bool less(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

MatchKind kind_of(const p4::v1::FieldMatch& match, const std::string& place) {
  switch (match.field_match_type_case()) {
    case p4::v1::FieldMatch::kExact: return MatchKind::kExact;
    case p4::v1::FieldMatch::kLpm: return MatchKind::kLpm;
    case p4::v1::FieldMatch::kTernary: return MatchKind::kTernary;
    case p4::v1::FieldMatch::kRange: return MatchKind::kRange;
    case p4::v1::FieldMatch::kOptional: return MatchKind::kOptional;
    default: throw invalid(place + ": no value (exact, lpm, ternary, range or optional)");
  }
}

engine::FieldMatch lpm_match(const p4::v1::FieldMatch::LPM& lpm, unsigned width,
                             const std::string& place) {
  std::string value = canonical(lpm.value(), width, place);
  if (lpm.prefix_len() < 1 || static_cast<unsigned>(lpm.prefix_len()) > width)
    throw invalid(
        fmt::format("{}: prefix_len {} is not one of 1 to {}; to match any value leave "
                    "the field out",
                    place, lpm.prefix_len(), width));
  const auto prefix = static_cast<unsigned>(lpm.prefix_len());
  if (trailing_zeros(value, width) < width - prefix)
    throw invalid(fmt::format("{}: the value has bits set beyond its prefix of {}", place, prefix));
  return engine::FieldMatch::lpm(std::move(value), prefix);
}

engine::FieldMatch ternary_match(const p4::v1::FieldMatch::Ternary& ternary, unsigned width,
                                 const std::string& place) {
  std::string value = canonical(ternary.value(), width, place);
  std::string mask = canonical(ternary.mask(), width, place + " mask");
  if (mask == std::string(1, '\0'))
    throw invalid(place + ": the mask is zero; to match any value leave the field out");
  if (!masked_by(value, mask))
    throw invalid(place + ": bits of the value outside the mask are set");
  return engine::FieldMatch::ternary(std::move(value), std::move(mask));
}

engine::FieldMatch range_match(const p4::v1::FieldMatch::Range& range, unsigned width,
                               const std::string& place) {
  std::string low = canonical(range.low(), width, place + " low");
  std::string high = canonical(range.high(), width, place + " high");
  if (less(high, low)) throw invalid(place + ": low is above high");
  if (low == std::string(1, '\0') && high == all_ones(width))
    throw invalid(place + ": the range has every value; to match any leave the field out");
  return engine::FieldMatch::range(std::move(low), std::move(high));
}

engine::FieldMatch value_match(const ProgramInfo::Field& field, const p4::v1::FieldMatch& match,
                               const std::string& place) {
  const MatchKind kind = kind_of(match, place);
  if (kind != field.kind)
    throw invalid(fmt::format("{}: a match of kind {}; the table's is {}", place,
                              engine::to_string(kind), engine::to_string(field.kind)));
  switch (kind) {
    case MatchKind::kExact:
      return engine::FieldMatch::exact(canonical(match.exact().value(), field.width, place));
    case MatchKind::kLpm: return lpm_match(match.lpm(), field.width, place);
    case MatchKind::kTernary: return ternary_match(match.ternary(), field.width, place);
    case MatchKind::kRange: return range_match(match.range(), field.width, place);
    case MatchKind::kOptional: {
      std::string value = canonical(match.optional().value(), field.width, place);
      return field.as_ternary ? engine::FieldMatch::ternary(std::move(value), all_ones(field.width))
                              : engine::FieldMatch::exact(std::move(value));
    }
  }
  throw invalid(place + ": unknown kind");
}

// Treats all written and read forms of "any value" alike.
bool matches_anything(const engine::FieldMatch& match, MatchKind kind) {
  return match.any || (kind == MatchKind::kLpm && match.prefix_length == 0);
}

void set_field(const ProgramInfo::Field& field, const engine::FieldMatch& match,
               p4::v1::FieldMatch& out) {
  out.set_field_id(field.id);
  switch (field.kind) {
    case MatchKind::kExact: out.mutable_exact()->set_value(match.value); break;
    case MatchKind::kLpm:
      out.mutable_lpm()->set_value(match.value);
      out.mutable_lpm()->set_prefix_len(static_cast<std::int32_t>(match.prefix_length));
      break;
    case MatchKind::kTernary:
      out.mutable_ternary()->set_value(match.value);
      out.mutable_ternary()->set_mask(match.mask);
      break;
    case MatchKind::kRange:
      out.mutable_range()->set_low(match.value);
      out.mutable_range()->set_high(match.mask);
      break;
    case MatchKind::kOptional: out.mutable_optional()->set_value(match.value); break;
  }
}

}  // namespace

engine::FieldMatch field_match(
    const ProgramInfo::Field& field,
    const google::protobuf::RepeatedPtrField<p4::v1::FieldMatch>& matches,
    const std::string& place) {
  const std::string field_place = fmt::format("{}, field {}", place, field.name);
  const p4::v1::FieldMatch* found = nullptr;
  for (const auto& match : matches) {
    if (match.field_id() != field.id) continue;
    if (found) throw invalid(field_place + " is given twice");
    found = &match;
  }
  if (found) return value_match(field, *found, field_place);
  if (field.kind == MatchKind::kExact)
    throw invalid(field_place + " is missing (it is matched exactly)");
  return engine::FieldMatch::dont_care();
}

void check_fields(const std::vector<ProgramInfo::Field>& fields,
                  const google::protobuf::RepeatedPtrField<p4::v1::FieldMatch>& matches,
                  const std::string& place) {
  for (const auto& match : matches) {
    const bool known = std::any_of(fields.begin(), fields.end(),
                                   [&](const auto& field) { return field.id == match.field_id(); });
    if (known) continue;
    std::vector<std::string> valid;
    for (const auto& field : fields) valid.push_back(fmt::format("{} ({})", field.id, field.name));
    throw invalid(fmt::format("{}: field_id {} is unknown; valid: {}", place, match.field_id(),
                              fmt::join(valid, ", ")));
  }
}

void add_match(const ProgramInfo::Field& field, const engine::FieldMatch& match,
               google::protobuf::RepeatedPtrField<p4::v1::FieldMatch>& out) {
  if (!matches_anything(match, field.kind)) set_field(field, match, *out.Add());
}

engine::TableEntry entry_key(const ProgramInfo::Table& table, const p4::v1::TableEntry& entry) {
  const std::string place = fmt::format("table {}", table.name);
  engine::TableEntry key;
  for (const ProgramInfo::Field& field : table.fields)
    key.match.push_back(field_match(field, entry.match(), place));
  check_fields(table.fields, entry.match(), place);
  if (table.needs_priority && entry.priority() <= 0)
    throw invalid(fmt::format("{}: priority {} is not above 0", place, entry.priority()));
  if (!table.needs_priority && entry.priority() != 0)
    throw invalid(fmt::format("{}: priority {} is not 0 (no ternary, range or optional field)",
                              place, entry.priority()));
  key.priority = entry.priority();
  return key;
}

engine::ActionCall action_call(const std::string& place, const ProgramInfo::ActionUses& actions,
                               const p4::v1::Action& action, bool is_default) {
  const ProgramInfo::ActionUse& use = ProgramInfo::action(actions, action.action_id(), place);
  if (is_default ? !use.as_default : !use.in_entries)
    throw RequestError(grpc::PERMISSION_DENIED,
                       fmt::format("{}: action {} may not be used {}", place, use.action->name,
                                   is_default ? "as the default" : "in an entry"));

  engine::ActionCall call;
  call.name = use.action->name;
  for (const ProgramInfo::Parameter& parameter : use.action->parameters) {
    const std::string parameter_place =
        fmt::format("{}, action {}, parameter {}", place, call.name, parameter.name);
    const auto found = std::find_if(action.params().begin(), action.params().end(),
                                    [&](const auto& p) { return p.param_id() == parameter.id; });
    if (found == action.params().end()) throw invalid(parameter_place + " is missing");
    call.arguments.push_back(canonical(found->value(), parameter.width, parameter_place));
  }
  if (static_cast<std::size_t>(action.params_size()) != use.action->parameters.size())
    throw invalid(fmt::format("{}, action {}: {} parameters; it has {}", place, call.name,
                              action.params_size(), use.action->parameters.size()));
  return call;
}

p4::v1::Action action_message(const std::string& place, const ProgramInfo::ActionUses& actions,
                              const engine::ActionCall& call) {
  const ProgramInfo::Action& action = ProgramInfo::action(actions, call.name, place);
  p4::v1::Action out;
  out.set_action_id(action.id);
  for (std::size_t i = 0; i < call.arguments.size() && i < action.parameters.size(); ++i) {
    auto& param = *out.add_params();
    param.set_param_id(action.parameters[i].id);
    param.set_value(call.arguments[i]);
  }
  return out;
}

engine::CounterValue counter_value(const p4::v1::CounterData& data) {
  if (data.packet_count() < 0 || data.byte_count() < 0)
    throw invalid(fmt::format("counter data: {} packets, {} bytes: below 0", data.packet_count(),
                              data.byte_count()));
  return {static_cast<std::uint64_t>(data.packet_count()),
          static_cast<std::uint64_t>(data.byte_count())};
}

std::string identity(const ProgramInfo::Table& table, const engine::TableEntry& entry) {
  std::string key = fmt::format("{} {}", table.id, entry.priority);
  for (std::size_t i = 0; i < table.fields.size() && i < entry.match.size(); ++i) {
    const engine::FieldMatch& match = entry.match[i];
    key += matches_anything(match, table.fields[i].kind)
               ? "|*"
               : fmt::format("|{}:{}/{}:{}/{}", match.value.size(), match.value, match.mask.size(),
                             match.mask, match.prefix_length);
  }
  return key;
}

p4::v1::TableEntry table_entry(const ProgramInfo::Table& table, const engine::TableEntry& entry) {
  p4::v1::TableEntry out;
  out.set_table_id(table.id);
  for (std::size_t i = 0; i < table.fields.size() && i < entry.match.size(); ++i)
    add_match(table.fields[i], entry.match[i], *out.mutable_match());
  out.set_priority(entry.priority);
  out.set_idle_timeout_ns(entry.idle_timeout_ns);
  return out;
}

p4::v1::CounterData counter_data(const engine::CounterValue& value) {
  p4::v1::CounterData data;
  data.set_packet_count(static_cast<std::int64_t>(value.packets));
  data.set_byte_count(static_cast<std::int64_t>(value.bytes));
  return data;
}

std::vector<engine::Replica> replicas(
    const google::protobuf::RepeatedPtrField<p4::v1::Replica>& list, const std::string& place) {
  std::vector<engine::Replica> out;
  std::set<engine::Replica> seen;
  for (const p4::v1::Replica& replica : list) {
    if (replica.backup_replicas_size() != 0)
      throw RequestError(grpc::UNIMPLEMENTED, place + ": backup replicas are not supported");
    engine::Replica copy;
    if (replica.port_kind_case() == p4::v1::Replica::kPort) {
      copy.port = static_cast<std::uint32_t>(decode_uint(replica.port(), 9, place + ", port"));
    } else if (replica.port_kind_case() == p4::v1::Replica::kEgressPort) {
      copy.port = replica.egress_port();
    } else {
      throw invalid(place + ": a replica has no port");
    }
    if (copy.port >= engine::Switch::kMaxPorts)
      throw invalid(fmt::format("{}: port {} is not one of 0 to {}", place, copy.port,
                                engine::Switch::kMaxPorts - 1));
    if (replica.instance() > 0xffff)
      throw invalid(
          fmt::format("{}: instance {} is not one of 0 to 65535", place, replica.instance()));
    copy.instance = static_cast<std::uint16_t>(replica.instance());
    if (!seen.insert(copy).second)
      throw invalid(
          fmt::format("{}: port {}, instance {} is given twice", place, copy.port, copy.instance));
    out.push_back(copy);
  }
  return out;
}

void add_replicas(const std::vector<engine::Replica>& list, bool with_port_bytes,
                  google::protobuf::RepeatedPtrField<p4::v1::Replica>& out) {
  for (const engine::Replica& replica : list) {
    p4::v1::Replica& added = *out.Add();
    if (with_port_bytes) {
      added.set_port(encode_uint(replica.port));
    } else {
      added.set_egress_port(replica.port);
    }
    added.set_instance(replica.instance);
  }
}

bool uses_port_bytes(const google::protobuf::RepeatedPtrField<p4::v1::Replica>& list) {
  return !list.empty() && list.begin()->port_kind_case() == p4::v1::Replica::kPort;
}

}  // namespace tiercast::vswitch
