#include "dataplane/switch/loop.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "dataplane/switch/clock.h"

namespace tiercast::vswitch {
namespace {

constexpr std::uint64_t kWakeupKey = std::uint64_t{1} << 32;  // smaller: indices into watched_
constexpr unsigned kTurnsPerLook = 64;  // turns without a sleep between looks at the descriptors
// How far a member's time goes on in one turn, in ns. Links between members whose frames take at
// least so long, with service and delay, hand each frame over at its very time. Over others it may
// count as arriving so much later.
constexpr std::int64_t kStep = 10'000;
constexpr std::int64_t kSleepsInARow = 100;  // that a limit of sleeps allows after a quiet time

int checked(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

timespec timespec_of(std::int64_t ns) { return {ns / 1'000'000'000, ns % 1'000'000'000}; }

void add_to(int epoll, int fd, std::uint64_t key) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  checked(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

}  // namespace

Loop::Loop(std::int64_t most_late_ns)
    : most_late_ns_(most_late_ns),
      epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wakeup_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
  add_to(epoll_.get(), wakeup_.get(), kWakeupKey);
  epoll_event event;
  const timespec none{};
  checked(::epoll_pwait2(epoll_.get(), &event, 1, &none, nullptr), "epoll_pwait2 (Linux 5.11)");
}

void Loop::add(Member& member) {
  member.loop_ = this;
  member.place_ = members_.size();
  members_.push_back(&member);
  due_ns_.push_back(0);
}

void Loop::watch(int fd, Member& member, std::uint64_t key) {
  add_to(epoll_.get(), fd, watched_.size());
  watched_.push_back({&member, key});
}

void Loop::poll(Member& member) { polling_.push_back(member.place_); }

void Loop::limit_sleeps(unsigned in_a_second) {
  sleep_gap_ns_ = in_a_second == 0 ? 0 : 1'000'000'000 / in_a_second;
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
  unsigned turns = 0;
  std::int64_t now_ns = monotonic_ns();
  std::fill(due_ns_.begin(), due_ns_.end(), now_ns);
  while (!stopping_) {
    for (const std::size_t place : polling_) members_[place]->touch(now_ns);
    Next first = next();
    if (first.due_ns > now_ns) {
      sleep(first.due_ns);
      now_ns = monotonic_ns();
      turns = 0;
      first = next();
      if (first.due_ns > now_ns) continue;
    } else if (++turns % kTurnsPerLook == 0) {  // rarely, because a look takes a system call
      look(0);
      now_ns = monotonic_ns();
      first = next();
    }
    if (members_.size() == 1) {
      give_turn(0, kNever);
    } else if (first.due_ns > now_ns - most_late_ns_) {
      give_turn(first.place, std::min({now_ns, first.due_ns + kStep, first.others_due_ns}));
    } else {
      for (std::size_t place = 0; place < members_.size(); ++place) give_turn(place, now_ns);
    }
    if (!polling_.empty()) now_ns = monotonic_ns();
  }
  for (Member* member : members_) member->last_turn();
}

Loop::Next Loop::next() const {
  Next next{0, due_ns_[0], kNever};
  for (std::size_t place = 1; place < due_ns_.size(); ++place) {
    const std::int64_t due_ns = due_ns_[place];
    if (due_ns < next.due_ns) {
      next = {place, due_ns, next.due_ns};
    } else {
      next.others_due_ns = std::min(next.others_due_ns, due_ns);
    }
  }
  return next;
}

void Loop::give_turn(std::size_t place, std::int64_t until_ns) {
  due_ns_[place] = kNever;
  members_[place]->touch(members_[place]->turn(until_ns));
}

// Sleeps until something happens, or this time, and longer if it slept too often lately.
void Loop::sleep(std::int64_t until_ns) {
  if (const std::int64_t now_ns = sleep_gap_ns_ != 0 ? monotonic_ns() : kNever; until_ns > now_ns) {
    may_wake_ns_ = std::max(may_wake_ns_, now_ns - kSleepsInARow * sleep_gap_ns_) + sleep_gap_ns_;
    if (may_wake_ns_ > now_ns) {
      const timespec left = timespec_of(may_wake_ns_ - now_ns);
      pollfd woken{wakeup_.get(), POLLIN, 0};  // other threads need not wait
      ::ppoll(&woken, 1, &left, nullptr);
    }
  }
  look(until_ns);
}

// Waits until something happens, or this time, and tells the members what it is.
void Loop::look(std::int64_t until_ns) {
  std::array<epoll_event, 64> events;
  const std::int64_t left_ns =
      until_ns > 0 ? std::max<std::int64_t>(until_ns - monotonic_ns(), 0) : 0;
  const timespec left = timespec_of(left_ns);
  const int count = ::epoll_pwait2(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   until_ns == kNever ? nullptr : &left, nullptr);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
    if (key == kWakeupKey) {
      eventfd_t wakeups;
      ::eventfd_read(wakeup_.get(), &wakeups);
      for (Member* member : members_) {
        if (!member->woken_.exchange(false)) continue;
        member->touch(monotonic_ns());
        member->woken();
      }
    } else {
      const Watched& watched = watched_[key];
      watched.member->readable(watched.key);
    }
  }
}

}  // namespace tiercast::vswitch
