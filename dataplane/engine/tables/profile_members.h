// The members and groups of one action profile: what entries of its tables refer to.
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
    std::uint32_t action = 0;  // of Image::actions
    std::vector<Cell> arguments;
    ActionCall call;
    std::uint64_t users = 0;  // entries, and places in groups
  };
  // The members of a group that can be chosen now.
  class Selection {
   public:
    void clear() { places_.clear(); }
    void add(const Member& member, std::uint32_t weight);
    // nullptr: there is none.
    const Member* choose(std::uint64_t hash) const;

   private:
    struct Place {
      std::uint64_t end;  // sum of the weights up to here
      const Member* member;
    };
    std::vector<Place> places_;
  };
  struct Group {
    ActionGroup config;
    Selection selection;
    std::uint64_t users = 0;  // entries
  };
  // The group of one entry.
  struct ActionSet {
    std::vector<WeightedAction> config;  // its actions' arguments as short as possible
    std::vector<Member> members;         // as config
    Selection selection;
  };
  // What an entry refers to: one of these.
  struct Binding {
    Member* member = nullptr;
    Group* group = nullptr;
    ActionSet* set = nullptr;
    // nullptr: an empty group.
    const Member* choose(std::uint64_t hash) const {
      if (member != nullptr) return member;
      return (group != nullptr ? group->selection : set->selection).choose(hash);
    }
  };

  // All must outlive the ProfileMembers. ports_down: the ports whose watchers are left out.
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

  // kNotFound, kInvalidArgument: not one of the three, or a wrong action set.
  Status bind(const TableEntry& entry, Binding& out);
  void release(const Binding& binding);
  // ports_down changed.
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
  std::uint64_t group_members_ = 0;  // of groups_ and sets_
  std::uint64_t group_weight_ = 0;
};

}  // namespace tiercast::engine
