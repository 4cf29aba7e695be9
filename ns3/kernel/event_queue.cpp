// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/kernel/event_queue.h"

namespace tiercast::ns3_runtime {

void EventQueue::put(const Waiting& one, std::size_t place) {
  while (place > 0) {
    const std::size_t parent = (place - 1) / 2;
    if (!(one < heap_[parent])) break;
    heap_[place] = heap_[parent];
    heap_[place].event->place_ = place;
    place = parent;
  }
  for (std::size_t child; (child = 2 * place + 1) < heap_.size(); place = child) {
    if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
    if (!(heap_[child] < one)) break;
    heap_[place] = heap_[child];
    heap_[place].event->place_ = place;
  }
  heap_[place] = one;
  one.event->place_ = place;
}

void EventQueue::remove(std::size_t place) {
  heap_[place].event->place_ = Event::kNowhere;
  const Waiting last = heap_.back();
  heap_.pop_back();
  if (place < heap_.size()) put(last, place);
}

void EventQueue::schedule(Event& event, std::int64_t at_ns) {
  const Waiting one{at_ns, next_number_++, &event};
  if (event.waits()) return put(one, event.place_);
  heap_.push_back(one);
  put(one, heap_.size() - 1);
}

void EventQueue::cancel(Event& event) {
  if (event.waits()) remove(event.place_);
}

Event& EventQueue::take() {
  Event& first = *heap_.front().event;
  remove(0);
  return first;
}

}  // namespace tiercast::ns3_runtime
