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

}  // namespace
}  // namespace tiercast::dpdk
