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

std::optional<std::uint32_t> Members::address_of(std::uint32_t id) const {
  const auto found = std::ranges::lower_bound(members_, id, {}, &Member::id);
  if (found == members_.end() || found->id != id) return std::nullopt;
  return found->address;
}

bool Members::has_address(std::uint32_t address) const {
  return std::ranges::binary_search(addresses_, address);
}

}  // namespace tiercast
