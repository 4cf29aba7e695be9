// Parser value sets. The engine compares values and masks, so prefixes become masks, and masks
// prefixes.
#include <fmt/format.h>

#include <bit>
#include <set>

#include "dataplane/switch/p4runtime/entities/entity_kinds.h"
#include "dataplane/switch/p4runtime/translate/bytestring.h"
#include "dataplane/switch/p4runtime/translate/translate.h"

namespace tiercast::vswitch {
namespace {

using engine::FieldMatch;
using engine::MatchKind;

FieldMatch as_masked(const ProgramInfo::Field& field, FieldMatch match, const std::string& place) {
  if (match.any || field.kind != MatchKind::kLpm) {
    if (!match.any && field.kind == MatchKind::kRange)
      throw RequestError(grpc::UNIMPLEMENTED,
                         fmt::format("{}, field {}: ranges are not supported", place, field.name));
    return match;
  }
  return FieldMatch::ternary(std::move(match.value), prefix_mask(match.prefix_length, field.width));
}

FieldMatch as_written(const ProgramInfo::Field& field, FieldMatch match) {
  if (match.any || field.kind != MatchKind::kLpm) return match;
  unsigned bits = 0;
  for (const char byte : match.mask)
    bits += static_cast<unsigned>(std::popcount(static_cast<unsigned char>(byte)));
  return FieldMatch::lpm(std::move(match.value), bits);
}

// The same string for the same member.
std::string identity(const engine::ValueSetMember& member) {
  std::string key;
  for (const FieldMatch& part : member)
    key += part.any ? "|*"
                    : fmt::format("|{}:{}/{}:{}", part.value.size(), part.value, part.mask.size(),
                                  part.mask);
  return key;
}

}  // namespace

void write_value_set(const Target& target, p4::v1::Update::Type type,
                     const p4::v1::ValueSetEntry& entry) {
  const ProgramInfo::ValueSet& set = target.info.value_set(entry.value_set_id());
  const std::string place = fmt::format("value set {}", set.name);
  require_modify(type, place);
  if (static_cast<std::uint64_t>(entry.members_size()) > set.size)
    throw RequestError(
        grpc::RESOURCE_EXHAUSTED,
        fmt::format("{}: {} members, its size is {}", place, entry.members_size(), set.size));
  std::vector<engine::ValueSetMember> members;
  std::set<std::string> seen;
  for (const p4::v1::ValueSetMember& message : entry.members()) {
    engine::ValueSetMember& member = members.emplace_back();
    check_fields(set.fields, message.match(), place);
    for (const ProgramInfo::Field& field : set.fields)
      member.push_back(as_masked(field, field_match(field, message.match(), place), place));
    if (!seen.insert(identity(member)).second)
      throw RequestError(grpc::ALREADY_EXISTS,
                         fmt::format("{}: member {} is given twice", place, members.size() - 1));
  }
  require(target.pipeline.write_value_set(set.name, std::move(members)));
}

void read_value_sets(const Target& target, const p4::v1::ValueSetEntry& request,
                     const EntitySink& sink) {
  if (request.value_set_id() != 0) target.info.value_set(request.value_set_id());
  for (const auto& [id, set] : target.info.value_sets()) {
    if (request.value_set_id() != 0 && request.value_set_id() != id) continue;
    p4::v1::Entity out;
    p4::v1::ValueSetEntry& entry = *out.mutable_value_set_entry();
    entry.set_value_set_id(id);
    for (const engine::ValueSetMember& member :
         value_of(target.pipeline.read_value_set(set.name))) {
      auto& matches = *entry.add_members()->mutable_match();
      for (std::size_t i = 0; i < set.fields.size() && i < member.size(); ++i)
        add_match(set.fields[i], as_written(set.fields[i], member[i]), matches);
    }
    sink(std::move(out));
  }
}

}  // namespace tiercast::vswitch
