#include "agent/members.h"

#include <string>
#include <utility>
#include <vector>

#include "agent/address.h"

namespace tiercast::agent {

std::shared_ptr<const Members> members_of(
    const google::protobuf::RepeatedPtrField<v1::Member>& members) {
  if (members.empty()) return nullptr;
  std::vector<Member> found;
  for (const v1::Member& member : members) {
    found.push_back({member.id(),
                     parse_ipv4(member.address(), "member " + std::to_string(member.id())),
                     member.below()});
  }
  return std::make_shared<const Members>(std::move(found));
}

}  // namespace tiercast::agent
