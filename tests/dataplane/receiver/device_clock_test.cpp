#include "dataplane/receiver/port/device_clock.h"

#include <gtest/gtest.h>

namespace tiercast::receiver {
namespace {

// A device that ticks every 8 ns and is `drift` fast.
struct Device {
  Time now = Time::nanoseconds(5'000'000'000);
  double drift = 0;
  std::int64_t set_ns = 0;
  std::uint64_t ticks() const {
    const auto ns = static_cast<double>(now.ns()) * (1 + drift) + static_cast<double>(set_ns);
    return static_cast<std::uint64_t>(ns / 8);
  }
};

TEST(ReceiverDeviceClock, FollowsADriftAndAClockThatWasSet) {
  Device device;
  device.drift = 50e-6;
  DeviceClock clock(
      [&](std::uint64_t& ticks) {
        ticks = device.ticks();
        return true;
      },
      [&] { return device.now = device.now + Duration::microseconds(1); });
  ASSERT_TRUE(clock.on());
  const auto error_ns = [&](Duration later) {
    const Time now = device.now;
    device.now = now + later;
    const auto error = (clock.time_of(device.ticks()) - device.now).ns();
    device.now = now;
    return std::abs(error);
  };
  for (int second = 0; second < 5; ++second) {
    device.now = device.now + Duration::milliseconds(1000);
    clock.sync(device.now);
    // The rate is known to 1 us in 10 ms at first, and better each second.
    EXPECT_LE(error_ns(Duration::milliseconds(10)), 1500);
  }
  EXPECT_LE(error_ns(Duration::milliseconds(1000)), 200'000 / 5);
  device.set_ns = 3'000'000'000;
  clock.sync(device.now);
  EXPECT_LE(error_ns(Duration::milliseconds(1)), 100);
}

TEST(ReceiverDeviceClock, IsOffWithoutAClock) {
  EXPECT_FALSE(DeviceClock().on());
  EXPECT_FALSE(DeviceClock([](std::uint64_t&) { return false; }, [] { return Time::zero(); }).on());
}

}  // namespace
}  // namespace tiercast::receiver
