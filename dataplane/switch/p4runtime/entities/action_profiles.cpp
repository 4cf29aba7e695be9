// Action profiles and selectors: members, groups, and action sets ("one shots"), which are groups
// that belong to one entry. Quoted names are sections of the P4Runtime specification.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dataplane/switch/p4runtime/entities/entity_kinds.h"
#include "dataplane/switch/p4runtime/translate/bytestring.h"
#include "dataplane/switch/p4runtime/translate/translate.h"

namespace tiercast::vswitch {
namespace {

using p4::v1::Update;
using Profile = ProgramInfo::ActionProfile;

std::string place_of(const Profile& profile) {
  return fmt::format("action profile {}", profile.name);
}

// "One Shot Action Selector Programming": a selector has groups or action sets, never both.
void require_style(const Target& target, const Profile& profile, bool one_shots) {
  const auto usage = value_of(target.pipeline.profile_usage(profile.name));
  if (one_shots ? usage.members + usage.groups != 0 : usage.action_sets != 0)
    throw invalid(fmt::format("{} has {} already; a selector has either groups or action sets",
                              place_of(profile), one_shots ? "members and groups" : "action sets"));
}

void require_selector(const Profile& profile, const char* what) {
  if (!profile.has_selector)
    throw invalid(fmt::format("{} has no selector, so no {}", place_of(profile), what));
}

// Converts the weight of a member of a group or action set for the engine.
std::uint32_t weight_of(const Profile& profile, std::int32_t weight) {
  const std::string place = place_of(profile);
  if (profile.weights_disallowed) {
    if (weight != 0)
      throw invalid(
          fmt::format("{}: weight {}: the switch sets weights, so valid: 0", place, weight));
    return 1;
  }
  if (weight <= 0) throw invalid(fmt::format("{}: weight {} is not above 0", place, weight));
  if (!profile.counts_weights && profile.max_weight > 0 && weight > profile.max_weight)
    throw invalid(fmt::format("{}: weight {} is above {}", place, weight, profile.max_weight));
  return static_cast<std::uint32_t>(weight);
}

// `Member` is that of a group or of an action set. Makes its port canonical.
template <class Member>
std::optional<std::uint32_t> watch_port_of(const Target& target, const Profile& profile,
                                           Member& member) {
  const std::string place = place_of(profile) + ", watch_port";
  std::optional<std::uint32_t> port;
  if (member.watch_kind_case() == Member::kWatchPort && !member.watch_port().empty()) {
    const std::string bytes = canonical(member.watch_port(), 32, place);
    port = static_cast<std::uint32_t>(decode_uint(bytes, 32, place));
    member.set_watch_port(bytes);
  } else if (member.watch_kind_case() == Member::kWatch && member.watch() != 0) {
    port = static_cast<std::uint32_t>(member.watch());
  }
  if (port) {
    const auto ports = target.pipeline.ports();
    if (std::find(ports.begin(), ports.end(), *port) == ports.end())
      throw invalid(fmt::format("{}: {} is not a port of this device", place, *port));
  }
  return port;
}

// The quantities that a selector's limits apply to: "ActionProfile", selector_size_semantics.
struct Size {
  std::uint64_t members = 0, weight = 0;
  std::uint64_t of(const Profile& profile) const {
    return profile.counts_weights ? weight : members;
  }
};

template <class Members>
Size size_of(const Members& members) {
  Size size;
  for (const auto& member : members) {
    ++size.members;
    size.weight += member.weight;
  }
  return size;
}

// Checks that all groups together stay within the limit when `now` replaces `before`.
void require_room(const Target& target, const Profile& profile, Size before, Size now) {
  if (profile.size == 0) return;
  const auto usage = value_of(target.pipeline.profile_usage(profile.name));
  const std::uint64_t used = Size{usage.group_members, usage.group_weight}.of(profile);
  if (used - before.of(profile) + now.of(profile) > profile.size)
    throw RequestError(
        grpc::RESOURCE_EXHAUSTED,
        fmt::format("{}: its groups' {} would be {}, its size is {}", place_of(profile),
                    profile.counts_weights ? "weights" : "members",
                    used - before.of(profile) + now.of(profile), profile.size));
}

std::vector<engine::WeightedAction> weighted_actions(const Target& target, const Profile& profile,
                                                     p4::v1::ActionProfileActionSet& set) {
  using Set = p4::v1::ActionProfileActionSet;
  const std::string place = place_of(profile);
  if (set.has_group_action())
    throw RequestError(grpc::UNIMPLEMENTED, place + ": a group_action is not supported");
  if (set.action_selection_mode() != Set::DEFAULT_MODE_DETERMINED_BY_ACTION_SELECTOR &&
      set.action_selection_mode() != Set::HASH)
    throw RequestError(grpc::UNIMPLEMENTED, place + ": groups are selected by hash only");
  const bool other_size = set.size_semantics() != Set::DEFAULT_SIZE_DETERMINED_BY_ACTION_SELECTOR &&
                          (set.size_semantics() == Set::SUM_OF_WEIGHTS) != profile.counts_weights;
  if (other_size)
    throw RequestError(grpc::UNIMPLEMENTED,
                       place + ": size_semantics cannot differ from the selector's");
  std::vector<engine::WeightedAction> actions;
  for (auto& each : *set.mutable_action_profile_actions()) {
    engine::WeightedAction& action = actions.emplace_back();
    action.action = action_call(place, profile.actions, each.action());
    action.weight = weight_of(profile, each.weight());
    action.watch_port = watch_port_of(target, profile, each);
    *each.mutable_action() = action_message(place, profile.actions, action.action);
  }
  if (const std::uint64_t size = size_of(actions).of(profile);
      profile.group_size > 0 && size > profile.group_size)
    throw invalid(fmt::format("{}: an action set of size {}, max_group_size is {}", place, size,
                              profile.group_size));
  return actions;
}

engine::ActionGroup group_of(const Target& target, const Profile& profile,
                             p4::v1::ActionProfileGroup& entry) {
  engine::ActionGroup group;
  std::set<std::uint32_t> seen;
  for (auto& each : *entry.mutable_members()) {
    if (!seen.insert(each.member_id()).second)
      throw invalid(fmt::format("{}, group {}: member {} is given twice; use weights instead",
                                place_of(profile), entry.group_id(), each.member_id()));
    const std::uint32_t weight = weight_of(profile, each.weight());
    group.members.push_back({each.member_id(), weight, watch_port_of(target, profile, each)});
  }
  return group;
}

// "Rules on Setting max_size".
void check_max_size(const Profile& profile, const p4::v1::ActionProfileGroup& entry) {
  const auto most = static_cast<std::int64_t>(profile.group_size);
  const std::int64_t size = entry.max_size();
  if (size < 0 || (most > 0 && (size == 0 || size > most)))
    throw invalid(fmt::format("{}, group {}: max_size {}, valid: {}", place_of(profile),
                              entry.group_id(), size,
                              most > 0 ? fmt::format("1 to {}", most) : "0 or more"));
}

}  // namespace

void set_indirect_action(const Target& target, const ProgramInfo::Table& table,
                         const p4::v1::TableAction& action, const engine::TableEntry* old,
                         engine::TableEntry& entry, p4::v1::ActionProfileActionSet& written) {
  const Profile& profile = target.info.action_profile(table.action_profile);
  using Action = p4::v1::TableAction;
  switch (action.type_case()) {
    case Action::kActionProfileMemberId:
      require_style(target, profile, false);
      entry.member = action.action_profile_member_id();
      break;
    case Action::kActionProfileGroupId:
      require_selector(profile, "groups");
      require_style(target, profile, false);
      entry.group = action.action_profile_group_id();
      break;
    case Action::kActionProfileActionSet: {
      require_selector(profile, "action sets");
      require_style(target, profile, true);
      written = action.action_profile_action_set();
      entry.action_set = weighted_actions(target, profile, written);
      const bool replaces = old != nullptr && old->action_set;
      require_room(target, profile, replaces ? size_of(*old->action_set) : Size{},
                   size_of(*entry.action_set));
      break;
    }
    default:
      throw invalid(fmt::format(
          "table {} has an action profile: valid: a member, a group or an action set", table.name));
  }
}

p4::v1::TableAction indirect_action(const engine::TableEntry& entry,
                                    const p4::v1::ActionProfileActionSet* written) {
  p4::v1::TableAction out;
  if (entry.member) out.set_action_profile_member_id(*entry.member);
  if (entry.group) out.set_action_profile_group_id(*entry.group);
  if (entry.action_set && written != nullptr) *out.mutable_action_profile_action_set() = *written;
  return out;
}

// --- Members ---

void write_member(const Target& target, Update::Type type,
                  const p4::v1::ActionProfileMember& entry) {
  const Profile& profile = target.info.action_profile(entry.action_profile_id());
  const std::uint32_t id = entry.member_id();
  if (id == 0) throw invalid(place_of(profile) + ": member_id is 0");
  require_style(target, profile, false);
  if (type == Update::DELETE) return require(target.pipeline.delete_member(profile.name, id));
  if (!entry.has_action())
    throw invalid(fmt::format("{}, member {}: no action", place_of(profile), id));
  const engine::ActionCall call = action_call(place_of(profile), profile.actions, entry.action());
  require(type == Update::INSERT ? target.pipeline.insert_member(profile.name, id, call)
                                 : target.pipeline.modify_member(profile.name, id, call));
}

void read_members(const Target& target, const p4::v1::ActionProfileMember& request,
                  const EntitySink& sink) {
  if (request.action_profile_id() != 0) target.info.action_profile(request.action_profile_id());
  for (const auto& [id, profile] : target.info.action_profiles()) {
    if (request.action_profile_id() != 0 && request.action_profile_id() != id) continue;
    for (const std::uint32_t member : value_of(target.pipeline.members(profile.name))) {
      if (request.member_id() != 0 && request.member_id() != member) continue;
      p4::v1::Entity out;
      p4::v1::ActionProfileMember& message = *out.mutable_action_profile_member();
      message.set_action_profile_id(id);
      message.set_member_id(member);
      *message.mutable_action() =
          action_message(place_of(profile), profile.actions,
                         value_of(target.pipeline.member(profile.name, member)));
      sink(std::move(out));
    }
  }
}

// --- Groups ---

void write_action_group(const Target& target, Update::Type type,
                        const p4::v1::ActionProfileGroup& entry) {
  const Profile& profile = target.info.action_profile(entry.action_profile_id());
  const std::uint32_t id = entry.group_id();
  const std::string place = fmt::format("{}, group {}", place_of(profile), id);
  if (id == 0) throw invalid(place_of(profile) + ": group_id is 0");
  require_selector(profile, "groups");
  require_style(target, profile, false);
  if (type == Update::DELETE) {
    require(target.pipeline.delete_group(profile.name, id));
    target.annotations.action_groups.erase({profile.id, id});
    return;
  }
  const auto old = target.pipeline.group(profile.name, id);
  if (type == Update::INSERT && old.ok())
    throw RequestError(grpc::ALREADY_EXISTS, place + " already exists");
  if (type == Update::MODIFY) require(old.status());
  check_max_size(profile, entry);
  if (type == Update::MODIFY &&
      entry.max_size() != target.annotations.action_groups[{profile.id, id}].max_size())
    throw invalid(fmt::format("{}: max_size {} differs from the group's; it cannot be changed",
                              place, entry.max_size()));
  p4::v1::ActionProfileGroup written = entry;
  const engine::ActionGroup group = group_of(target, profile, written);
  const Size size = size_of(group.members);
  if (entry.max_size() > 0 && size.of(profile) > static_cast<std::uint64_t>(entry.max_size()))
    throw RequestError(grpc::RESOURCE_EXHAUSTED,
                       fmt::format("{}: its size is {}, max_size is {}", place, size.of(profile),
                                   entry.max_size()));
  require_room(target, profile, old.ok() ? size_of(old->members) : Size{}, size);
  require(type == Update::INSERT ? target.pipeline.insert_group(profile.name, id, group)
                                 : target.pipeline.modify_group(profile.name, id, group));
  target.annotations.action_groups[{profile.id, id}] = std::move(written);
}

void read_action_groups(const Target& target, const p4::v1::ActionProfileGroup& request,
                        const EntitySink& sink) {
  if (request.action_profile_id() != 0) target.info.action_profile(request.action_profile_id());
  for (const auto& [key, message] : target.annotations.action_groups) {
    if (request.action_profile_id() != 0 && request.action_profile_id() != key.first) continue;
    if (request.group_id() != 0 && request.group_id() != key.second) continue;
    p4::v1::Entity out;
    *out.mutable_action_profile_group() = message;
    sink(std::move(out));
  }
}

}  // namespace tiercast::vswitch
