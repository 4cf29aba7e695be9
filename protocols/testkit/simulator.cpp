#include "protocols/testkit/simulator.h"

#include <algorithm>
#include <utility>

namespace tiercast::testkit {

Actor::~Actor() { simulator_.set_call(*this, Time::never()); }
Time Actor::now() const { return simulator_.now(); }
void Actor::set_call(Time at) { simulator_.set_call(*this, at); }

void Simulator::set_call(Actor& actor, Time at) {
  if (!actor.call_at_.is_never()) calls_.erase({actor.call_at_, actor.order_, &actor});
  actor.call_at_ = at;
  if (at.is_never()) return;
  actor.call_at_ = std::max(at, now_);
  actor.order_ = next_order_++;
  calls_.insert({actor.call_at_, actor.order_, &actor});
}

void Simulator::at(Time when, std::function<void()> event) {
  events_.push_back({std::max(when, now_), next_order_++, std::move(event)});
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

void Simulator::run_until(Time end) {
  for (;;) {
    const auto call = calls_.begin();
    const bool has_call = call != calls_.end() && std::get<0>(*call) <= end;
    const bool has_event = !events_.empty() && events_.front().when <= end;
    if (!has_call && !has_event) break;
    const bool event_first =
        has_event && (!has_call || std::tie(events_.front().when, events_.front().order) <
                                       std::tie(std::get<0>(*call), std::get<1>(*call)));
    if (event_first) {
      std::pop_heap(events_.begin(), events_.end(), std::greater<>());
      Event event = std::move(events_.back());
      events_.pop_back();
      now_ = event.when;
      event.run();
    } else {
      Actor* actor = std::get<2>(*call);
      now_ = std::get<0>(*call);
      calls_.erase(call);
      actor->call_at_ = Time::never();
      actor->act();
    }
  }
  now_ = std::max(now_, end);
}

}  // namespace tiercast::testkit
