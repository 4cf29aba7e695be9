#include "dataplane/delay_line/delay_lines.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace tiercast::delay_line {
namespace {

constexpr int kBurst = 64;  // frames to read from one interface before the others get their turn
constexpr int kReceiveBuffer = 8 * 1024 * 1024;  // bytes
constexpr std::int64_t kLateNs = 1'000'000;
constexpr std::int64_t kReportNs = 1'000'000'000;

int check(int result, const std::string& what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

std::int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

int open_socket(const std::string& name) {
  const unsigned index = if_nametoindex(name.c_str());
  if (index == 0)
    throw std::system_error(errno, std::generic_category(), "interface '" + name + "'");
  // Bound before the protocol is set, so that the socket never gets a frame of another interface.
  const int fd = check(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), name);
  const int on = 1;
  packet_mreq promiscuous{};
  promiscuous.mr_ifindex = static_cast<int>(index);
  promiscuous.mr_type = PACKET_MR_PROMISC;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(index);
  check(setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on), name);
  check(setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on), name);
  check(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer, sizeof kReceiveBuffer), name);
  check(setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous), name);
  check(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), name);
  return fd;
}

void watch(int epoll, int fd, void* what) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = what;
  check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll");
}

}  // namespace

DelayLines::DelayLines(const std::vector<LineOption>& options)
    : epoll_(check(epoll_create1(EPOLL_CLOEXEC), "epoll")),
      timer_(check(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd")) {
  for (const LineOption& option : options) {
    End& a = add_end(option.a, option.a_to_b_ns);
    End& b = add_end(option.b, option.b_to_a_ns);
    a.peer = &b;
    b.peer = &a;
  }
  watch(epoll_.get(), timer_.get(), &timer_);
}

DelayLines::End& DelayLines::add_end(const std::string& name, std::int64_t delay_ns) {
  ends_.push_back(
      std::make_unique<End>(End{name, UniqueFd(open_socket(name)), DelayLine(delay_ns)}));
  watch(epoll_.get(), ends_.back()->socket.get(), ends_.back().get());
  return *ends_.back();
}

void DelayLines::run(int stop_fd, const std::function<void(const Stats&)>& report) {
  watch(epoll_.get(), stop_fd, nullptr);
  turns_.turn(now());
  next_report_ns_ = turns_.last_turn_ns() + kReportNs;
  set_timer();
  std::array<epoll_event, 32> events;
  for (;;) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno == EINTR) continue;
    check(count, "epoll");
    turns_.turn(now());
    for (int i = 0; i < count; ++i) {
      void* const what = events[static_cast<std::size_t>(i)].data.ptr;
      if (what == nullptr) return report(take_stats());
      if (what == &timer_) {
        std::uint64_t expirations;
        [[maybe_unused]] const auto size = read(timer_.get(), &expirations, sizeof expirations);
      } else {
        receive(*static_cast<End*>(what));
      }
    }
    for (const auto& end : ends_) send_due(*end);
    if (turns_.last_turn_ns() >= next_report_ns_) {
      report(take_stats());
      next_report_ns_ = turns_.last_turn_ns() + kReportNs;
    }
    set_timer();
  }
}

void DelayLines::receive(End& end) {
  for (int i = 0; i < kBurst; ++i) {
    const ssize_t size = recv(end.socket.get(), buffer_.data(), buffer_.size(), 0);
    if (size < 0) {
      // An interface that goes down reports ENETDOWN once. Frames arrive again when it is up.
      if (errno == EAGAIN || errno == EINTR || errno == ENETDOWN) return;
      check(-1, end.name);
    }
    end.line.put({buffer_.data(), static_cast<std::size_t>(size)}, now());
  }
}

void DelayLines::send_due(End& end) {
  const std::int64_t time = now();
  while (const auto out = end.line.take(time)) {
    const std::int64_t late_ns = time - out->due_ns;
    stats_.late_max_ns = std::max(stats_.late_max_ns, late_ns);
    if (late_ns > kLateNs) ++stats_.late_over_1ms;
    const ssize_t sent = send(end.peer->socket.get(), out->frame.data(), out->frame.size(), 0);
    ++(sent < 0 ? stats_.send_errors : stats_.frames);
  }
}

void DelayLines::set_timer() {
  std::int64_t next = turns_.next_beat_ns();
  for (const auto& end : ends_) next = std::min(next, end->line.next_due().value_or(next));
  // An expiry of zero would disarm the timer.
  next = std::max<std::int64_t>(next, 1);
  itimerspec setting{};
  setting.it_value.tv_sec = next / 1'000'000'000;
  setting.it_value.tv_nsec = next % 1'000'000'000;
  check(timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr), "timerfd");
}

Stats DelayLines::take_stats() {
  for (const auto& end : ends_) {
    tpacket_stats counters{};
    socklen_t size = sizeof counters;
    // Reading resets these kernel counters.
    check(getsockopt(end->socket.get(), SOL_PACKET, PACKET_STATISTICS, &counters, &size),
          end->name);
    stats_.kernel_drops += counters.tp_drops;
  }
  stats_.time_ns = turns_.last_turn_ns();
  stats_.longest_pause_ns = turns_.take_longest_ns();
  return stats_;
}

}  // namespace tiercast::delay_line
