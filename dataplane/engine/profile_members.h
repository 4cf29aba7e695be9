// The members and groups of one action profile: what entries of its tables refer to.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "dataplane/engine/control.h"
#include "dataplane/engine/image.h"
#include "dataplane/engine/status.h"

namespace tiercast::engine {

class ProfileMembers {
 public:
  struct Member {
    std::uint32_t action = 0;  // of Image::actions
    std::vector<Cell> arguments;
    ActionCall call;
    std::uint64_t users = 0;  // entries, and places in groups
  };

  // Both must outlive the ProfileMembers.
  ProfileMembers(const Image& image, const ActionProfile& layout)
      : image_(image), layout_(layout) {}
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

  // Counts an entry that refers to a member or group, once more or (add: false) once less.
  // kNotFound, kInvalidArgument: neither or both.
  Status refer(const TableEntry& entry, bool add);
  // nullptr: there is none.
  const Member* find_member(std::uint32_t id) const;
  const Member* choose(std::uint32_t group, std::uint64_t hash) const;

 private:
  struct Group {
    ActionGroup config;
    std::uint64_t users = 0;  // entries
  };
  Status missing(const char* what, std::uint32_t id) const;
  Status still_used(const char* what, std::uint32_t id) const;
  Status set_group(std::uint32_t id, ActionGroup group);
  void release_members(const ActionGroup& group);

  const Image& image_;
  const ActionProfile& layout_;
  std::unordered_map<std::uint32_t, Member> members_;
  std::unordered_map<std::uint32_t, Group> groups_;
};

}  // namespace tiercast::engine
