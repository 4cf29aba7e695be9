#include "agent/event_loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace tiercast::agent {
namespace {

int check(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

void add_to_epoll(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

// A socket's error (interface down, ICMP) keeps being reported until it is read.
// Returns whether there was one.
bool clear_socket_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error != 0;
}

}  // namespace

EventLoop::EventLoop()
    : epoll_(check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      timer_(check(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create")) {
  add_to_epoll(epoll_.get(), timer_.get());
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  check(sigprocmask(SIG_BLOCK, &set, nullptr), "sigprocmask");
  signals_ = UniqueFd(check(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), "signalfd"));
}

void EventLoop::watch(int fd, Handler on_readable, Handler on_error) {
  add_to_epoll(epoll_.get(), fd);
  handlers_[fd] = {std::move(on_readable), std::move(on_error)};
}

void EventLoop::watch_signals(std::function<void(int)> on_signal) {
  watch(signals_.get(), [this, on_signal = std::move(on_signal)] {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      on_signal(static_cast<int>(info.ssi_signo));
    }
  });
}

// Setting a timerfd also clears an unread expiry, so no expiry needs to be read.
void EventLoop::arm(Time deadline) {
  if (deadline == armed_) return;
  itimerspec spec{};  // all zero disarms
  if (!deadline.is_never()) {
    const std::int64_t ns = std::max<std::int64_t>(deadline.ns(), 1);
    spec.it_value.tv_sec = ns / 1'000'000'000;
    spec.it_value.tv_nsec = ns % 1'000'000'000;
  }
  check(timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr), "timerfd_settime");
  armed_ = deadline;
}

void EventLoop::wait(Time deadline) {
  arm(deadline);
  std::array<epoll_event, 8> events;
  const int ready = epoll_wait(epoll_.get(), events.data(), events.size(), -1);
  if (ready < 0 && errno != EINTR) check(ready, "epoll_wait");
  for (int i = 0; i < ready; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    if (fd == timer_.get()) {
      armed_ = Time::zero();  // it has expired; the next arm() must set it, whatever the deadline
    } else {
      const Handlers& handlers = handlers_.at(fd);
      const bool failed =
          (events[static_cast<std::size_t>(i)].events & EPOLLERR) != 0 && clear_socket_error(fd);
      if (failed && handlers.on_error) handlers.on_error();
      handlers.on_readable();
    }
  }
}

}  // namespace tiercast::agent
