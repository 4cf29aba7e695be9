#include "protocols/schemes/mdpcc/goal_rate.h"

#include <algorithm>
#include <cmath>

namespace tiercast::mdpcc {

GoalRate::GoalRate(const Settings& settings, std::uint32_t packet_size, std::uint32_t segment_size)
    : settings_(settings), packet_size_(packet_size), segment_size_(segment_size) {}

void GoalRate::start(Time now, Duration grtt) {
  slow_start_ = true;
  goal_ = Rate::zero();
  adjusted_at_ = answered_at_ = exempt_until_ = unheard_at_ = now;
  const Rate packet_per_grtt = Rate::bytes_per_second(packet_size_ / grtt.seconds());
  set(settings_.initial_rate > Rate::zero() ? settings_.initial_rate : packet_per_grtt,
      Reason::kNone, grtt);
}

GoalRate::Reason GoalRate::set(Rate rate, Reason reason, Duration grtt) {
  const double slowest = std::max(1.0, grtt.seconds());
  const Rate floor = std::min(Rate::bytes_per_second(packet_size_ / slowest), settings_.max_rate);
  rate_ = std::clamp(rate, floor, settings_.max_rate);
  return reason;
}

GoalRate::Reason GoalRate::response(Time now, const Representative& clr, bool sent, Duration grtt) {
  const Duration rtt = std::max(clr.rtt.srtt(), kMinRtt);
  // At most one step per round trip, however often the CLR answers.
  const double steps = std::clamp((now - adjusted_at_) / rtt, 0.0, 1.0);
  adjusted_at_ = answered_at_ = now;
  goal_ = std::min(clr.rate, settings_.max_rate);
  slow_start_ = clr.start;
  if (slow_start_) {
    if (goal_ > rate_ && !sent) return Reason::kNone;
    return set(std::min(goal_, rate_ * 2), Reason::kSlowStart, grtt);
  }
  if (goal_ > rate_) {
    if (!sent) return Reason::kNone;
    const Rate step = settings_.linear_mode == LinearMode::kPacketPerRtt
                          ? Rate::bytes_per_second(packet_size_ / rtt.seconds()) * steps
                          : Rate::bytes_per_second(segment_size_);
    return set(std::min(goal_, rate_ + step), Reason::kIncrease, grtt);
  }
  if (settings_.decrease_mode == DecreaseMode::kAtOnce) {
    return set(goal_, Reason::kDecrease, grtt);
  }
  return set(std::max(goal_, rate_ * std::pow(settings_.decrease, steps)), Reason::kDecrease, grtt);
}

GoalRate::Reason GoalRate::no_response(Time now, const Representative* clr, Duration patience,
                                       Duration grtt) {
  if (clr != nullptr && (now < exempt_until_ || now - answered_at_ < patience * 4)) {
    return Reason::kNone;
  }
  if (clr == nullptr && now - answered_at_ < patience * 4) return Reason::kNone;
  if (now - unheard_at_ < patience) return Reason::kNone;
  unheard_at_ = now;
  return set(rate_ * 0.5, Reason::kUnheard, grtt);
}

void GoalRate::clr_chosen(Time now, Duration rtt) { exempt_until_ = now + rtt * 10; }

GoalRate::Reason GoalRate::idle(Duration grtt) { return set(rate_ * 0.5, Reason::kIdle, grtt); }

}  // namespace tiercast::mdpcc
