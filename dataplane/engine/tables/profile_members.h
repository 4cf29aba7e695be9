// The members and groups of one action profile, which entries of its tables refer to.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataplane/engine/control/control.h"
#include "dataplane/engine/control/status.h"
#include "dataplane/engine/image/image.h"
#include "dataplane/engine/image/limits.h"

namespace tiercast::engine {

using PortSet = std::bitset<kPortNumbers>;

class ProfileMembers {
 public:
  struct Member {
    std::uint32_t action = 0;  // index into Image::actions
    std::vector<Cell> arguments;
    ActionCall call;
    std::uint64_t users = 0;  // number of entries and group places that use it
  };
  // The members of a group that may be chosen now.
  class Selection {
   public:
    void clear() { places_.clear(); }
    void add(const Member& member, std::uint32_t weight);
    // nullptr if the group is empty.
    const Member* choose(std::uint64_t hash) const;

   private:
    struct Place {
      std::uint64_t end;  // sum of the weights up to this member
      const Member* member;
    };
    std::vector<Place> places_;
  };
  struct Group {
    ActionGroup config;
    Selection selection;
    std::uint64_t users = 0;  // number of entries that use it
  };
  // A group that belongs to one entry.
  struct ActionSet {
    std::vector<WeightedAction> config;  // with the actions' arguments in their shortest form
    std::vector<Member> members;         // one for each of config
    Selection selection;
  };
  // What an entry refers to: exactly one of these.
  struct Binding {
    Member* member = nullptr;
    Group* group = nullptr;
    ActionSet* set = nullptr;
    // nullptr if the group is empty.
    const Member* choose(std::uint64_t hash) const {
      if (member != nullptr) return member;
      return (group != nullptr ? group->selection : set->selection).choose(hash);
    }
  };

  // All arguments must outlive the ProfileMembers. Members that watch a port in ports_down are
  // skipped.
  ProfileMembers(const Image& image, const ActionProfile& layout, const PortSet& ports_down)
      : image_(image), layout_(layout), ports_down_(ports_down) {}
  const ActionProfile& layout() const { return layout_; }

  Status insert_member(std::uint32_t id, const ActionCall& action);
  Status modify_member(std::uint32_t id, const ActionCall& action);
  Status delete_member(std::uint32_t id);
  Result<ActionCall> member(std::uint32_t id) const;
  std::vector<std::uint32_t> members() const;
  Status insert_group(std::uint32_t id, ActionGroup group);
  Status modify_group(std::uint32_t id, ActionGroup group);
  Status delete_group(std::uint32_t id);
  Result<ActionGroup> group(std::uint32_t id) const;
  std::vector<std::uint32_t> groups() const;

  ProfileUsage usage() const;

  // kNotFound; kInvalidArgument: not exactly one of the three, or a wrong action set.
  Status bind(const TableEntry& entry, Binding& out);
  void release(const Binding& binding);
  // To be called when ports_down has changed.
  void update_selections();

 private:
  Status missing(const char* what, std::uint32_t id) const;
  Status still_used(const char* what, std::uint32_t id) const;
  Status needs_selector(const char* what) const;
  Status check_weight(std::uint32_t weight, std::optional<std::uint32_t> watch_port) const;
  Status resolve(const ActionCall& action, Member& out) const;
  Status set_group(std::uint32_t id, ActionGroup group);
  void release_members(const ActionGroup& group);
  Status make_set(const std::vector<WeightedAction>& actions, ActionSet*& out);
  bool is_up(std::optional<std::uint32_t> watch_port) const;
  void select(Group& group) const;
  void select(ActionSet& set) const;

  const Image& image_;
  const ActionProfile& layout_;
  const PortSet& ports_down_;
  std::unordered_map<std::uint32_t, Member> members_;
  std::unordered_map<std::uint32_t, Group> groups_;
  std::unordered_map<const ActionSet*, std::unique_ptr<ActionSet>> sets_;
  std::uint64_t group_members_ = 0;  // in groups_ and sets_
  std::uint64_t group_weight_ = 0;
};

}  // namespace tiercast::engine
