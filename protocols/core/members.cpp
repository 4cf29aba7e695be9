#include "protocols/core/members.h"

#include <algorithm>
#include <string>
#include <utility>

#include "protocols/base/units.h"

namespace tiercast {

Members::Members(std::vector<Member> members) : members_(std::move(members)) {
  std::ranges::sort(members_, {}, &Member::id);
  const auto twice = std::ranges::adjacent_find(members_, {}, &Member::id);
  if (twice != members_.end()) {
    throw ConfigError("member " + std::to_string(twice->id) +
                      " is given twice; valid: one address for each number");
  }
  for (const Member& member : members_) addresses_.push_back(member.address);
  std::ranges::sort(addresses_);
}

const Member* Members::find(std::uint32_t id) const {
  const auto found = std::ranges::lower_bound(members_, id, {}, &Member::id);
  return found == members_.end() || found->id != id ? nullptr : &*found;
}

std::optional<std::uint32_t> Members::address_of(std::uint32_t id) const {
  const Member* const member = find(id);
  return member == nullptr ? std::nullopt : std::optional(member->address);
}

std::uint32_t Members::below(std::uint32_t id) const {
  const Member* const member = find(id);
  return member == nullptr ? 0 : member->below;
}

bool Members::has_address(std::uint32_t address) const {
  return std::ranges::binary_search(addresses_, address);
}

}  // namespace tiercast
