// Virtual time: runs actors in the order of the instants that they asked for.
//
// An Actor has at most one pending call; asking again replaces it. Calls that are due at the same
// instant run in the order in which they were asked for. So two runs with the same inputs are
// identical, down to the last event.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <tuple>
#include <vector>

#include "protocols/base/units.h"

namespace tiercast::testkit {

class Simulator;

class Actor {
 public:
  explicit Actor(Simulator& simulator) : simulator_(simulator) {}
  virtual ~Actor();
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  // Called at the instant asked for. The call is then no longer pending. May ask for another call,
  // also at the same instant.
  virtual void act() = 0;

 protected:
  Time now() const;
  // Replaces the pending call; Time::never() cancels it. An instant in the past means now.
  void set_call(Time at);
  Time pending_call() const { return call_at_; }
  Simulator& simulator() { return simulator_; }

 private:
  friend class Simulator;
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
  Simulator& simulator_;
  Time call_at_ = Time::never();
  std::size_t place_ = kNowhere;  // of the pending call in the simulator's heap
};

class Simulator {
 public:
  Time now() const { return now_; }

  // Runs all calls due up to and including `end`, then sets the clock to `end`.
  void run_until(Time end);
  void run_for(Duration duration) { run_until(now_ + duration); }

  // A one-off event of a scenario, such as a receiver that joins at 3 s.
  void at(Time when, std::function<void()> event);

 private:
  friend class Actor;
  struct Event {
    Time when;
    std::uint64_t order;
    std::function<void()> run;
    bool operator>(const Event& other) const {
      return std::tie(when, order) > std::tie(other.when, other.order);
    }
  };

  struct Call {
    Time when;
    std::uint64_t order;
    Actor* actor;
    bool operator<(const Call& other) const {
      return std::tie(when, order) < std::tie(other.when, other.order);
    }
  };

  void set_call(Actor& actor, Time at);
  // Puts the call where it belongs in the heap, given that `place` is free.
  void settle(std::size_t place, const Call& call);
  void put(std::size_t place, const Call& call);
  void remove(Actor& actor);

  Time now_;
  std::uint64_t next_order_ = 0;
  std::vector<Call> calls_;    // a heap with the next one on top
  std::vector<Event> events_;  // a heap
};

}  // namespace tiercast::testkit
