#include "agent/event_loop.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "agent/clock.h"

namespace tiercast::agent {
namespace {

// The loop's precision is measured on real networks. These tests only check that it neither returns
// early nor forgets. However busy the machine is, it takes less than this.
constexpr Duration kPatience = Duration::milliseconds(60'000);

TEST(AgentEventLoop, WaitsUntilTheDeadline) {
  EventLoop loop;
  for (int i = 0; i < 3; ++i) {
    const Time deadline = monotonic_now() + Duration::milliseconds(3);
    loop.wait(deadline);
    EXPECT_GE(monotonic_now(), deadline);
    EXPECT_LT(monotonic_now(), deadline + kPatience);
  }
}

TEST(AgentEventLoop, APastDeadlineReturnsAtOnceEachTime) {
  EventLoop loop;
  const Time past = monotonic_now();
  for (int i = 0; i < 3; ++i) loop.wait(past);
  EXPECT_LT(monotonic_now(), past + kPatience);
}

TEST(AgentEventLoop, AReadableDescriptorEndsTheWait) {
  EventLoop loop;
  const UniqueFd event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  std::uint64_t got = 0;
  loop.watch(event.get(), [&] { ASSERT_EQ(read(event.get(), &got, sizeof got), 8); });
  const std::uint64_t one = 1;
  ASSERT_EQ(write(event.get(), &one, sizeof one), 8);
  loop.wait(Time::never());
  EXPECT_EQ(got, 1u);
}

TEST(AgentEventLoop, ASocketsErrorIsClearedAndTold) {
  EventLoop loop;
  UniqueFd gone(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const UniqueFd refused(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  ASSERT_EQ(bind(gone.get(), address, length), 0);
  ASSERT_EQ(getsockname(gone.get(), address, &length), 0);
  ASSERT_EQ(connect(refused.get(), address, length), 0);
  int errors = 0;
  loop.watch(refused.get(), [] {}, [&] { ++errors; });
  gone = UniqueFd();
  ASSERT_EQ(send(refused.get(), "x", 1, 0), 1);  // the kernel answers with ICMP at once
  loop.wait(Time::never());
  EXPECT_EQ(errors, 1);
  loop.wait(monotonic_now());
  EXPECT_EQ(errors, 1);
}

TEST(AgentEventLoop, SignalsAreReported) {
  EventLoop loop;
  int seen = 0;
  loop.watch_signals([&](int signal) { seen = signal; });
  kill(getpid(), SIGTERM);
  loop.wait(monotonic_now() + kPatience);
  EXPECT_EQ(seen, SIGTERM);
}

TEST(AgentStampClock, StampsComeToTheMonotonicClock) {
  // The offset is measured between two readings of the clock, so it is off by at most their
  // distance.
  const Time before_offset = monotonic_now();
  const StampClock clock;
  const Duration error = monotonic_now() - before_offset;
  const Time before = monotonic_now();
  std::timespec stamp{};
  clock_gettime(CLOCK_REALTIME, &stamp);
  const Time after = monotonic_now();
  stamp.tv_sec -= 1;  // a stamp from before the offset was measured
  const Time converted = clock.to_monotonic(stamp) + Duration::milliseconds(1000);
  constexpr Duration kSlewed = Duration::milliseconds(1);  // 500 ppm of two seconds, as NTP may
  EXPECT_GE(converted, before - error - kSlewed);
  EXPECT_LE(converted, after + error + kSlewed);
}

TEST(AgentStampClock, StampsAcrossAStepOfTheClockBecomeNow) {
  const Time before = monotonic_now();
  const StampClock clock;
  std::timespec stamp{};
  clock_gettime(CLOCK_REALTIME, &stamp);
  for (const int step : {3600, -3600}) {
    std::timespec stepped = stamp;
    stepped.tv_sec += step;
    EXPECT_GE(clock.to_monotonic(stepped), before) << step;
    EXPECT_LE(clock.to_monotonic(stepped), monotonic_now()) << step;
  }
}

}  // namespace
}  // namespace tiercast::agent
