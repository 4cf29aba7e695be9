// The events of a process that are still to come, by their time. Events of the same time run in the
// order in which they were scheduled.
// SPDX-License-Identifier: GPL-2.0-only
//
// An event belongs to whoever schedules it, so scheduling it costs no memory of its own. It is in
// the queue at most once: to schedule it again replaces its time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tiercast::ns3_runtime {

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

class Event {
 public:
  Event() = default;
  virtual ~Event() = default;  // it must not wait, unless the queue is not used any more
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  virtual void run() = 0;
  bool waits() const { return place_ != kNowhere; }

 private:
  friend class EventQueue;
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  std::size_t place_ = kNowhere;  // in the queue's heap
};

// An event that calls a member function of its owner.
template <class Owner>
class Call final : public Event {
 public:
  Call(Owner& owner, void (Owner::*what)()) : owner_(owner), what_(what) {}
  void run() override { (owner_.*what_)(); }

 private:
  Owner& owner_;
  void (Owner::*what_)();
};

class EventQueue {
 public:
  EventQueue() = default;
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // Takes the event out of the queue first, if it is there.
  void schedule(Event& event, std::int64_t at_ns);
  // Does nothing if the event does not wait.
  void cancel(Event& event);

  // The time of the first event; kNever if there is none.
  std::int64_t next() const { return heap_.empty() ? kNever : heap_.front().at_ns; }
  // Every event that is scheduled gets a number. That of the first event (there must be one), and
  // of the one that is scheduled next.
  std::uint64_t first_number() const { return heap_.front().number; }
  std::uint64_t next_number() const { return next_number_; }
  // Takes the first event out of the queue. There must be one.
  Event& take();

 private:
  struct Waiting {
    std::int64_t at_ns;
    std::uint64_t number;
    Event* event;
    bool operator<(const Waiting& other) const {
      return at_ns != other.at_ns ? at_ns < other.at_ns : number < other.number;
    }
  };

  // Moves towards the root, or away from it, to where it belongs, starting from a free place.
  void put(const Waiting& one, std::size_t place);
  void remove(std::size_t place);

  std::vector<Waiting> heap_;  // a binary heap
  std::uint64_t next_number_ = 0;
};

}  // namespace tiercast::ns3_runtime
