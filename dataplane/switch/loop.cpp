#include "dataplane/switch/loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "dataplane/switch/clock.h"

namespace tiercast::vswitch {
namespace {

constexpr std::uint64_t kWakeupKey = std::uint64_t{1} << 32;  // smaller: indices into watched_
constexpr unsigned kRoundsPerLook = 64;  // rounds without a sleep between looks at the descriptors

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
      wakeup_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
  add_to(epoll_.get(), wakeup_.get(), kWakeupKey);
  epoll_event event;
  const timespec none{};
  checked(::epoll_pwait2(epoll_.get(), &event, 1, &none, nullptr), "epoll_pwait2 (Linux 5.11)");
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
    if (!polls_ && std::none_of(members_.begin(), members_.end(), touched)) {
      std::int64_t due_ns = kNever;
      for (const Member* member : members_) due_ns = std::min(due_ns, member->due_ns_);
      wait(due_ns);
    } else if (rounds++ % kRoundsPerLook == 0) {  // rarely, because a look takes a system call
      wait(0);
    }
    const std::int64_t now_ns = monotonic_ns();
    const std::int64_t until_ns = members_.size() > 1 ? now_ns : kNever;
    for (Member* member : members_) {
      if (!polls_ && !member->touched_ && member->due_ns_ > now_ns) continue;
      member->touched_ = false;
      member->due_ns_ = member->turn(until_ns);
    }
  }
  for (Member* member : members_) member->last_turn();
}

// Sleeps until something happens, or this time, and tells the members what it is.
void Loop::wait(std::int64_t until_ns) {
  std::array<epoll_event, 64> events;
  const std::int64_t left_ns =
      until_ns > 0 ? std::max<std::int64_t>(until_ns - monotonic_ns(), 0) : 0;
  const timespec left{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
  const int count = ::epoll_pwait2(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   until_ns == kNever ? nullptr : &left, nullptr);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
    if (key == kWakeupKey) {
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

}  // namespace tiercast::vswitch
