#include "dataplane/dpdk/tsc_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tiercast::dpdk {
namespace {

// The rate is measured instead of taken from the processor or DPDK, and no sync() sets the clock
// back.
TEST(DpdkTscClock, KeepsToTheKernelsClockAndNeverGoesBack) {
  TscClock clock;
  Time last = clock.now();
  for (int round = 0; round < 4; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const Time before = agent::monotonic_now();
    const Time now = clock.now();
    const Time after = agent::monotonic_now();
    EXPECT_GE(now, before - Duration::microseconds(40));
    EXPECT_LE(now, after + Duration::microseconds(40));
    EXPECT_GE(now, last);
    clock.sync();
    last = clock.now();
    EXPECT_GE(last, now);
  }
}

struct FakeClock {
  Time time;
  Time now() const { return time; }
};

// A trial at line rate has no turn without frames for minutes.
TEST(DpdkSyncTurns, AThreadThatIsAlwaysBusySyncsEverySecond) {
  for (const bool polls : {false, true}) {
    FakeClock clock;
    SyncTurns sync(clock, polls);
    int syncs = 0;
    for (int turn = 0; turn < 50'000; ++turn) {  // five seconds
      clock.time = clock.time + Duration::microseconds(100);
      syncs += sync.due(clock);
    }
    EXPECT_GE(syncs, 4) << polls;
    EXPECT_LE(syncs, 5) << polls;
  }
}

}  // namespace
}  // namespace tiercast::dpdk
