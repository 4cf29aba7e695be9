// Who may send feedback to a session's sender, where that is known before the session starts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tiercast {

struct Member {
  std::uint32_t id = 0;       // its number in the wire format (SessionConfig::self_id)
  std::uint32_t address = 0;  // IPv4, host order
};

// The receivers of a session, and the aggregators that speak for them. Never changed.
class Members {
 public:
  // ConfigError: a number that is given twice.
  explicit Members(std::vector<Member> members);

  // Empty: there is no such member.
  std::optional<std::uint32_t> address_of(std::uint32_t id) const;
  // Whether it is the address of any member.
  bool has_address(std::uint32_t address) const;

 private:
  std::vector<Member> members_;           // by number
  std::vector<std::uint32_t> addresses_;  // in ascending order
};

}  // namespace tiercast
