#include "dataplane/engine/profile_members.h"

#include <algorithm>

#include "dataplane/engine/action_call.h"

namespace tiercast::engine {

namespace {

template <class Map>
std::vector<std::uint32_t> sorted_keys(const Map& map) {
  std::vector<std::uint32_t> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace

Status ProfileMembers::missing(const char* what, std::uint32_t id) const {
  return {ErrorCode::kNotFound,
          "action profile " + layout_.name + " has no " + what + " " + std::to_string(id)};
}

Status ProfileMembers::still_used(const char* what, std::uint32_t id) const {
  return {ErrorCode::kFailedPrecondition, "action profile " + layout_.name + ": " + what + " " +
                                              std::to_string(id) + " is still used"};
}

Status ProfileMembers::insert_member(std::uint32_t id, const ActionCall& action) {
  if (members_.contains(id)) {
    return {ErrorCode::kAlreadyExists,
            "action profile " + layout_.name + " already has member " + std::to_string(id)};
  }
  if (members_.size() >= layout_.max_size) {
    return {ErrorCode::kResourceExhausted, "action profile " + layout_.name +
                                               " is full: its size is " +
                                               std::to_string(layout_.max_size)};
  }
  ResolvedCall call;
  Status s = resolve_call(image_, "action profile " + layout_.name, layout_.actions, action, call);
  if (!s.ok()) return s;
  members_[id] = {layout_.actions[call.index], std::move(call.arguments), std::move(call.canonical),
                  0};
  return {};
}

Status ProfileMembers::modify_member(std::uint32_t id, const ActionCall& action) {
  const auto found = members_.find(id);
  if (found == members_.end()) return missing("member", id);
  ResolvedCall call;
  Status s = resolve_call(image_, "action profile " + layout_.name, layout_.actions, action, call);
  if (!s.ok()) return s;
  Member& member = found->second;
  member.action = layout_.actions[call.index];
  member.arguments = std::move(call.arguments);
  member.call = std::move(call.canonical);
  return {};
}

Status ProfileMembers::delete_member(std::uint32_t id) {
  const auto found = members_.find(id);
  if (found == members_.end()) return missing("member", id);
  if (found->second.users > 0) return still_used("member", id);
  members_.erase(found);
  return {};
}

Result<ActionCall> ProfileMembers::member(std::uint32_t id) const {
  const auto found = members_.find(id);
  if (found == members_.end()) return missing("member", id);
  return found->second.call;
}

std::vector<std::uint32_t> ProfileMembers::members() const { return sorted_keys(members_); }

void ProfileMembers::release_members(const ActionGroup& group) {
  for (const std::uint32_t member : group.members) --members_.at(member).users;
}

Status ProfileMembers::set_group(std::uint32_t id, ActionGroup group) {
  if (layout_.hash == kNone) {
    return {ErrorCode::kInvalidArgument,
            "action profile " + layout_.name + " has no selector, so no groups"};
  }
  for (const std::uint32_t member : group.members) {
    if (!members_.contains(member)) return missing("member", member);
  }
  std::sort(group.members.begin(), group.members.end());
  for (const std::uint32_t member : group.members) ++members_.at(member).users;
  Group& slot = groups_[id];
  release_members(slot.config);
  slot.config = std::move(group);
  return {};
}

Status ProfileMembers::insert_group(std::uint32_t id, ActionGroup group) {
  if (groups_.contains(id)) {
    return {ErrorCode::kAlreadyExists,
            "action profile " + layout_.name + " already has group " + std::to_string(id)};
  }
  return set_group(id, std::move(group));
}

Status ProfileMembers::modify_group(std::uint32_t id, ActionGroup group) {
  if (!groups_.contains(id)) return missing("group", id);
  return set_group(id, std::move(group));
}

Status ProfileMembers::delete_group(std::uint32_t id) {
  const auto found = groups_.find(id);
  if (found == groups_.end()) return missing("group", id);
  if (found->second.users > 0) return still_used("group", id);
  release_members(found->second.config);
  groups_.erase(found);
  return {};
}

Result<ActionGroup> ProfileMembers::group(std::uint32_t id) const {
  const auto found = groups_.find(id);
  if (found == groups_.end()) return missing("group", id);
  return found->second.config;
}

std::vector<std::uint32_t> ProfileMembers::groups() const { return sorted_keys(groups_); }

Status ProfileMembers::refer(const TableEntry& entry, bool add) {
  if (entry.member.has_value() == entry.group.has_value()) {
    return {ErrorCode::kInvalidArgument,
            "an entry of a table with action profile " + layout_.name + " has a member or a group"};
  }
  std::uint64_t* users = nullptr;
  if (entry.member) {
    const auto found = members_.find(*entry.member);
    if (found == members_.end()) return missing("member", *entry.member);
    users = &found->second.users;
  } else {
    const auto found = groups_.find(*entry.group);
    if (found == groups_.end()) return missing("group", *entry.group);
    users = &found->second.users;
  }
  *users += add ? 1 : std::uint64_t{0} - 1;
  return {};
}

const ProfileMembers::Member* ProfileMembers::find_member(std::uint32_t id) const {
  const auto found = members_.find(id);
  return found == members_.end() ? nullptr : &found->second;
}

const ProfileMembers::Member* ProfileMembers::choose(std::uint32_t group,
                                                     std::uint64_t hash) const {
  const auto found = groups_.find(group);
  if (found == groups_.end() || found->second.config.members.empty()) return nullptr;
  const auto& members = found->second.config.members;
  return find_member(members[hash % members.size()]);
}

}  // namespace tiercast::engine
