#include "protocols/schemes/rla/members.h"

namespace tiercast::rla {

Members::Members(const Settings& settings)
    : settings_(settings),
      table_(settings.max_receivers),
      members_(settings.max_receivers),
      max_timeout_(settings.initial_timeout),
      min_rwnd_(settings.max_window) {}

Member* Members::find(std::uint32_t source) {
  const std::uint32_t slot = table_.find(source);
  return slot == IdTable::kNone ? nullptr : &members_[slot];
}

const Member* Members::find(std::uint32_t source) const {
  return const_cast<Members*>(this)->find(source);
}

Member* Members::add(Time now, std::uint32_t source, std::uint32_t address,
                     std::uint64_t packets_sent) {
  const std::uint32_t slot = table_.insert(source);
  if (slot == IdTable::kNone) return nullptr;
  used_ = std::max(used_, slot + 1);
  Member& member = members_[slot];
  member = Member();
  member.active = true;
  member.slot = slot;
  member.source = source;
  member.address = address;
  member.rwnd = settings_.max_window;
  member.heard = now;
  member.listener = Listener(settings_.interval_weight, packets_sent);
  return &member;
}

void Members::heard(Member& member, Time now, Duration sample, std::uint32_t rwnd) {
  member.heard = now;
  if (sample >= Duration::zero()) {
    member.rtt.update(sample);
    max_srtt_ = std::max(max_srtt_, member.rtt.srtt());
    max_timeout_ = std::max(max_timeout_, member.rtt.timeout());
  }
  member.rwnd = std::max<std::uint32_t>(1, rwnd);
  min_rwnd_ = std::min(min_rwnd_, member.rwnd);
}

void Members::recount() {
  max_srtt_ = Duration::zero();
  max_timeout_ = Duration::zero();
  min_rwnd_ = settings_.max_window;
  for_each_active([this](const Member& member) {
    max_srtt_ = std::max(max_srtt_, member.rtt.srtt());
    max_timeout_ = std::max(max_timeout_, member.rtt.timeout());
    min_rwnd_ = std::min(min_rwnd_, member.rwnd);
  });
  if (max_timeout_ == Duration::zero()) max_timeout_ = settings_.initial_timeout;
}

Member* Members::slowest(std::uint64_t packets_sent) {
  constexpr std::uint64_t kEnoughSignals = 8;  // below this the average means little
  Member* worst = nullptr;
  double smallest = 0;
  double next_smallest = 0;  // 0: none
  for_each_active([&](Member& member) {
    const Listener& l = member.listener;
    const double silence = static_cast<double>(packets_sent - l.last_signal_packet);
    const double interval = std::max({1.0, l.interval.value(), silence});
    if (worst == nullptr || interval < smallest) {
      next_smallest = smallest;
      smallest = interval;
      worst = &member;
    } else if (next_smallest == 0 || interval < next_smallest) {
      next_smallest = interval;
    }
  });
  const bool slow = next_smallest > settings_.drop_slow_ratio * smallest &&
                    worst->listener.signals >= kEnoughSignals;
  return slow ? worst : nullptr;
}

}  // namespace tiercast::rla
