#include "dataplane/switch/loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "dataplane/switch/clock.h"

namespace tiercast::vswitch {
namespace {

// epoll keys. Smaller keys are indices into watched_.
constexpr std::uint64_t kTimerKey = std::uint64_t{1} << 32;
constexpr std::uint64_t kWakeupKey = kTimerKey + 1;
constexpr unsigned kRoundsPerPoll = 64;  // rounds of polling between looks at the descriptors
constexpr std::int64_t kFired = -1;      // value of armed_ns_ after the timer has fired

int checked(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

void add_to(int epoll, int fd, std::uint64_t key) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  checked(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

}  // namespace

Loop::Loop()
    : epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wakeup_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      timer_(checked(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
                     "timerfd_create")) {
  add_to(epoll_.get(), wakeup_.get(), kWakeupKey);
  add_to(epoll_.get(), timer_.get(), kTimerKey);
}

void Loop::watch(int fd, Member& member, std::uint64_t key) {
  add_to(epoll_.get(), fd, watched_.size());
  watched_.push_back({&member, key});
}

void Loop::start(Member& member) {
  member.ready_ = true;
  const auto ready = [](const Member* one) { return one->ready_; };
  if (std::all_of(members_.begin(), members_.end(), ready))
    thread_ = std::thread([this] { run(); });
}

void Loop::wake(Member& member) {
  member.woken_ = true;
  ::eventfd_write(wakeup_.get(), 1);
}

void Loop::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  ::eventfd_write(wakeup_.get(), 1);
  thread_.join();
}

void Loop::run() {
  ::pthread_setname_np(::pthread_self(), "data-plane");
  ::prctl(PR_SET_TIMERSLACK, 1UL);  // by default, timers may be 50 us late
  const auto touched = [](const Member* one) { return one->touched_; };
  unsigned rounds = 0;
  while (!stopping_) {
    const bool busy = polls_ || std::any_of(members_.begin(), members_.end(), touched);
    // Rarely where it polls, because a look takes a system call.
    if (!polls_ || rounds++ % kRoundsPerPoll == 0) wait(!busy);
    const std::int64_t now_ns = monotonic_ns();
    for (Member* member : members_) {
      if (!polls_ && !member->touched_ && member->due_ns_ > now_ns) continue;
      member->touched_ = false;
      member->due_ns_ = member->turn();
    }
  }
  for (Member* member : members_) member->last_turn();
}

// Sleeps, if it may, until something happens, and tells the members what it is.
void Loop::wait(bool asleep) {
  if (asleep) {
    std::int64_t due_ns = kNever;
    for (const Member* member : members_) due_ns = std::min(due_ns, member->due_ns_);
    arm(due_ns);
  }
  std::array<epoll_event, 64> events;
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), asleep ? -1 : 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
    if (key == kTimerKey) {
      armed_ns_ = kFired;
    } else if (key == kWakeupKey) {
      eventfd_t wakeups;
      ::eventfd_read(wakeup_.get(), &wakeups);
      for (Member* member : members_) {
        if (!member->woken_.exchange(false)) continue;
        member->touch();
        member->woken();
      }
    } else {
      const Watched& watched = watched_[key];
      watched.member->touch();
      watched.member->readable(watched.key);
    }
  }
}

// Setting a timer also clears its expiry, so the expiry need never be read.
void Loop::arm(std::int64_t due_ns) {
  if (due_ns == armed_ns_) return;
  itimerspec when{};  // zero disarms
  if (due_ns != kNever) {
    const std::int64_t value = std::max<std::int64_t>(due_ns, 1);
    when.it_value.tv_sec = value / 1'000'000'000;
    when.it_value.tv_nsec = value % 1'000'000'000;
  }
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  armed_ns_ = due_ns;
}

}  // namespace tiercast::vswitch
