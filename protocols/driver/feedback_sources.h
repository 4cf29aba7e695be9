// Whether feedback comes from the receiver in whose name it speaks: a receiver's number counts only
// from that receiver's address. Once for all schemes and runtimes, between these and the cores.
//
// An address proves something only where the network checks it (docs/security.md, "place").
#pragma once

#include <memory>
#include <utility>

#include "protocols/core/core.h"
#include "protocols/core/registry.h"
#include "protocols/core/rows.h"
#include "protocols/wire/bytes.h"

namespace tiercast {

class FeedbackSources {
 public:
  // `members` null: nobody knows who the members are, and anybody's feedback is accepted.
  FeedbackSources(const Scheme& scheme, std::shared_ptr<const Members> members)
      : members_(std::move(members)), source_at_(scheme.feedback_source_at) {}

  // Counts what it refuses. What is too short to hold a number is left to the core, which refuses
  // it as such.
  bool accepts(const Arrival& arrival) {
    if (members_ == nullptr) return true;
    if (source_at_ == 0) {
      if (members_->has_address(arrival.from)) return true;
      ++refusals_.non_member;
      return false;
    }
    if (arrival.message.size() < source_at_ + 4) return true;
    const auto address = members_->address_of(wire::get32(arrival.message, source_at_));
    if (address == arrival.from) return true;
    ++(address ? refusals_.impersonated : refusals_.non_member);
    return false;
  }

  const FeedbackRefusals& refusals() const { return refusals_; }

 private:
  std::shared_ptr<const Members> members_;
  std::size_t source_at_;
  FeedbackRefusals refusals_;
};

}  // namespace tiercast
