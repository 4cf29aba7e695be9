// Who may send feedback to a session's sender, where that is known before the session starts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tiercast {

struct Member {
  std::uint32_t id = 0;       // its number in the wire format (SessionConfig::self_id)
  std::uint32_t address = 0;  // IPv4, host order
  std::uint32_t below = 0;    // of an aggregator: receivers for which it speaks; 0: a receiver
};

// The receivers of a session, and the aggregators that speak for them. Never changed.
class Members {
 public:
  // ConfigError: a number that is given twice.
  explicit Members(std::vector<Member> members);

  // Empty: there is no such member.
  std::optional<std::uint32_t> address_of(std::uint32_t id) const;
  // Member::below; 0 if there is no such member.
  std::uint32_t below(std::uint32_t id) const;
  // Whether it is the address of any member.
  bool has_address(std::uint32_t address) const;

 private:
  const Member* find(std::uint32_t id) const;

  std::vector<Member> members_;           // by number
  std::vector<std::uint32_t> addresses_;  // in ascending order
};

}  // namespace tiercast
