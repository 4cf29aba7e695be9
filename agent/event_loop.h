// Sleeps until a descriptor is readable or an instant is reached, with the precision of a timerfd.
// Never spins.
//
// One thread calls everything. System errors are thrown as std::system_error.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "base/unique_fd.h"
#include "protocols/base/units.h"

namespace tiercast::agent {

class EventLoop {
 public:
  using Handler = std::function<void()>;

  // Blocks SIGINT and SIGTERM and handles them itself. Construct the loop before any thread is
  // started, so that all threads inherit the blocked signals.
  EventLoop();

  // Calls `on_readable` from wait() as long as `fd` is readable (level-triggered), so the handler
  // must read all there is. The loop clears a socket's error, and calls `on_error`, if there is
  // one, before `on_readable`. `fd` must stay open while the loop is in use.
  void watch(int fd, Handler on_readable, Handler on_error = {});

  // Calls `on_signal` from wait() for each SIGINT and SIGTERM.
  void watch_signals(std::function<void(int signal)> on_signal);

  // Returns after handlers have run or at `deadline` (Time::never(): none), whichever comes first.
  void wait(Time deadline);

 private:
  void arm(Time deadline);

  UniqueFd epoll_;
  UniqueFd timer_;
  UniqueFd signals_;
  Time armed_ = Time::never();
  struct Handlers {
    Handler on_readable, on_error;
  };
  std::map<int, Handlers> handlers_;
};

}  // namespace tiercast::agent
