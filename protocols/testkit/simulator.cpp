#include "protocols/testkit/simulator.h"

#include <algorithm>
#include <utility>

namespace tiercast::testkit {
namespace {

// Four calls share a cache line or two, and the heap is half as deep as with two.
constexpr std::size_t kChildren = 4;

}  // namespace

Actor::~Actor() { simulator_.set_call(*this, Time::never()); }
Time Actor::now() const { return simulator_.now(); }
void Actor::set_call(Time at) { simulator_.set_call(*this, at); }

void Simulator::put(std::size_t place, const Call& call) {
  calls_[place] = call;
  call.actor->place_ = place;
}

void Simulator::settle(std::size_t place, const Call& call) {
  while (place > 0) {
    const std::size_t parent = (place - 1) / kChildren;
    if (!(call < calls_[parent])) break;
    put(place, calls_[parent]);
    place = parent;
  }
  for (;;) {
    const std::size_t first = place * kChildren + 1;
    if (first >= calls_.size()) break;
    const std::size_t last = std::min(first + kChildren, calls_.size());
    const auto begin = calls_.begin();
    const auto next = std::min_element(begin + static_cast<std::ptrdiff_t>(first),
                                       begin + static_cast<std::ptrdiff_t>(last));
    if (!(*next < call)) break;
    const auto below = static_cast<std::size_t>(next - begin);
    put(place, *next);
    place = below;
  }
  put(place, call);
}

void Simulator::remove(Actor& actor) {
  const std::size_t place = actor.place_;
  actor.place_ = Actor::kNowhere;
  const Call last = calls_.back();
  calls_.pop_back();
  if (place < calls_.size()) settle(place, last);
}

void Simulator::set_call(Actor& actor, Time at) {
  actor.call_at_ = at;
  const bool pending = actor.place_ != Actor::kNowhere;
  if (at.is_never()) {
    if (pending) remove(actor);
    return;
  }
  actor.call_at_ = std::max(at, now_);
  const Call call{actor.call_at_, next_order_++, &actor};
  if (!pending) calls_.push_back(call);
  settle(pending ? actor.place_ : calls_.size() - 1, call);
}

void Simulator::at(Time when, std::function<void()> event) {
  events_.push_back({std::max(when, now_), next_order_++, std::move(event)});
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

void Simulator::run_until(Time end) {
  for (;;) {
    const bool has_call = !calls_.empty() && calls_.front().when <= end;
    const bool has_event = !events_.empty() && events_.front().when <= end;
    if (!has_call && !has_event) break;
    const bool event_first =
        has_event && (!has_call || std::tie(events_.front().when, events_.front().order) <
                                       std::tie(calls_.front().when, calls_.front().order));
    if (event_first) {
      std::pop_heap(events_.begin(), events_.end(), std::greater<>());
      Event event = std::move(events_.back());
      events_.pop_back();
      now_ = event.when;
      event.run();
    } else {
      // The call stays on top while it runs, so that the actor's next one takes its place.
      const Call call = calls_.front();
      now_ = call.when;
      call.actor->call_at_ = Time::never();
      call.actor->act();
      if (!calls_.empty() && calls_.front().order == call.order) remove(*calls_.front().actor);
    }
  }
  now_ = std::max(now_, end);
}

}  // namespace tiercast::testkit
