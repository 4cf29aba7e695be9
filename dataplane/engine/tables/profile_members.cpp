#include "dataplane/engine/tables/profile_members.h"

#include <algorithm>

#include "dataplane/engine/control/sorted_keys.h"
#include "dataplane/engine/tables/action_call.h"

namespace tiercast::engine {

Status ProfileMembers::missing(const char* what, std::uint32_t id) const {
  return {ErrorCode::kNotFound,
          "action profile " + layout_.name + " has no " + what + " " + std::to_string(id)};
}

Status ProfileMembers::still_used(const char* what, std::uint32_t id) const {
  return {ErrorCode::kFailedPrecondition, "action profile " + layout_.name + ": " + what + " " +
                                              std::to_string(id) + " is still used"};
}

Status ProfileMembers::needs_selector(const char* what) const {
  return {ErrorCode::kInvalidArgument,
          "action profile " + layout_.name + " has no selector, so no " + what};
}

Status ProfileMembers::resolve(const ActionCall& action, Member& out) const {
  ResolvedCall call;
  Status s = resolve_call(image_, "action profile " + layout_.name, layout_.actions, action, call);
  if (!s.ok()) return s;
  out.action = layout_.actions[call.index];
  out.arguments = std::move(call.arguments);
  out.call = std::move(call.canonical);
  return {};
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
  Member member;
  if (Status s = resolve(action, member); !s.ok()) return s;
  members_[id] = std::move(member);
  return {};
}

Status ProfileMembers::modify_member(std::uint32_t id, const ActionCall& action) {
  const auto found = members_.find(id);
  if (found == members_.end()) return missing("member", id);
  return resolve(action, found->second);
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

Status ProfileMembers::check_weight(std::uint32_t weight,
                                    std::optional<std::uint32_t> watch_port) const {
  if (weight == 0) {
    return {ErrorCode::kInvalidArgument,
            "action profile " + layout_.name + ": weight 0, valid: 1 or more"};
  }
  if (watch_port && *watch_port >= kPortNumbers) {
    return {ErrorCode::kInvalidArgument, "action profile " + layout_.name + ": watch port " +
                                             std::to_string(*watch_port) + ", valid: 0 to " +
                                             std::to_string(kPortNumbers - 1)};
  }
  return {};
}

void ProfileMembers::release_members(const ActionGroup& group) {
  for (const GroupMember& each : group.members) {
    --members_.at(each.member).users;
    group_weight_ -= each.weight;
  }
  group_members_ -= group.members.size();
}

Status ProfileMembers::set_group(std::uint32_t id, ActionGroup group) {
  if (layout_.hash == kNone) return needs_selector("groups");
  for (const GroupMember& each : group.members) {
    if (!members_.contains(each.member)) return missing("member", each.member);
    if (Status s = check_weight(each.weight, each.watch_port); !s.ok()) return s;
  }
  std::stable_sort(group.members.begin(), group.members.end(),
                   [](const GroupMember& a, const GroupMember& b) { return a.member < b.member; });
  for (const GroupMember& each : group.members) {
    ++members_.at(each.member).users;
    group_weight_ += each.weight;
  }
  group_members_ += group.members.size();
  Group& slot = groups_[id];
  release_members(slot.config);
  slot.config = std::move(group);
  select(slot);
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

ProfileUsage ProfileMembers::usage() const {
  return {members_.size(), groups_.size(), sets_.size(), group_members_, group_weight_};
}

// --- Binding entries ---

Status ProfileMembers::bind(const TableEntry& entry, Binding& out) {
  if (entry.member.has_value() + entry.group.has_value() + entry.action_set.has_value() != 1) {
    return {ErrorCode::kInvalidArgument, "an entry of a table with action profile " + layout_.name +
                                             " has a member, a group or an action set"};
  }
  if (entry.member) {
    const auto found = members_.find(*entry.member);
    if (found == members_.end()) return missing("member", *entry.member);
    out.member = &found->second;
    ++out.member->users;
  } else if (entry.group) {
    const auto found = groups_.find(*entry.group);
    if (found == groups_.end()) return missing("group", *entry.group);
    out.group = &found->second;
    ++out.group->users;
  } else {
    return make_set(*entry.action_set, out.set);
  }
  return {};
}

Status ProfileMembers::make_set(const std::vector<WeightedAction>& actions, ActionSet*& out) {
  if (layout_.hash == kNone) return needs_selector("action sets");
  auto set = std::make_unique<ActionSet>();
  std::uint64_t weight = 0;
  for (const WeightedAction& each : actions) {
    if (Status s = check_weight(each.weight, each.watch_port); !s.ok()) return s;
    Member& member = set->members.emplace_back();
    if (Status s = resolve(each.action, member); !s.ok()) return s;
    set->config.push_back({member.call, each.weight, each.watch_port});
    weight += each.weight;
  }
  select(*set);
  group_members_ += actions.size();
  group_weight_ += weight;
  out = set.get();
  sets_[out] = std::move(set);
  return {};
}

void ProfileMembers::release(const Binding& binding) {
  if (binding.member != nullptr) --binding.member->users;
  if (binding.group != nullptr) --binding.group->users;
  if (binding.set == nullptr) return;
  for (const WeightedAction& each : binding.set->config) group_weight_ -= each.weight;
  group_members_ -= binding.set->config.size();
  sets_.erase(binding.set);
}

// --- Choice ---

void ProfileMembers::Selection::add(const Member& member, std::uint32_t weight) {
  places_.push_back({(places_.empty() ? 0 : places_.back().end) + weight, &member});
}

const ProfileMembers::Member* ProfileMembers::Selection::choose(std::uint64_t hash) const {
  if (places_.empty()) return nullptr;
  const std::uint64_t at = hash % places_.back().end;
  return std::upper_bound(
             places_.begin(), places_.end(), at,
             [](std::uint64_t wanted, const Place& place) { return wanted < place.end; })
      ->member;
}

bool ProfileMembers::is_up(std::optional<std::uint32_t> watch_port) const {
  return !watch_port || !ports_down_.test(*watch_port);
}

void ProfileMembers::select(Group& group) const {
  group.selection.clear();
  for (const GroupMember& each : group.config.members) {
    if (is_up(each.watch_port)) group.selection.add(members_.at(each.member), each.weight);
  }
}

void ProfileMembers::select(ActionSet& set) const {
  set.selection.clear();
  for (std::size_t i = 0; i < set.config.size(); ++i) {
    if (is_up(set.config[i].watch_port)) set.selection.add(set.members[i], set.config[i].weight);
  }
}

void ProfileMembers::update_selections() {
  for (auto& [id, group] : groups_) select(group);
  for (auto& [key, set] : sets_) select(*set);
}

}  // namespace tiercast::engine
