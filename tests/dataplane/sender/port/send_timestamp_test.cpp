// The arithmetic of departures by a device's clock, tested with clocks as devices have them. No
// device here offers RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP.
#include "dataplane/sender/port/send_timestamp.h"

#include <gtest/gtest.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <cmath>
#include <cstdint>

namespace tiercast::sender {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

// The test sets our clock. The device's clock is a function of it, read with an error.
struct Clocks {
  double ticks_per_ns = 1;
  double drift_ppm = 0;         // of its rate
  double drift_growth_ppm = 0;  // per second
  double offset = 1e15;
  double reading_error_ns = 0;  // alternately early and late
  bool readable = true;
  std::int64_t now_ns = 5 * kSecond;
  int readings = 0;

  double exact() const {
    const double s = static_cast<double>(now_ns) / 1e9;
    const double ppm = drift_ppm + drift_growth_ppm * s / 2;
    return offset + static_cast<double>(now_ns) * (1 + ppm * 1e-6) * ticks_per_ns;
  }
  SendTimestamp::ReadClock reader() {
    return [this](std::uint64_t& ticks) {
      const double error = (readings++ % 2 == 0 ? 1 : -1) * reading_error_ns * ticks_per_ns;
      ticks = static_cast<std::uint64_t>(exact() + error);
      return readable;
    };
  }
  // Made as the worker makes it, sleeping between its first two readings.
  SendTimestamp make() {
    int calls = 0;
    return SendTimestamp(reader(), [this, &calls] {
      if (calls++ > 0) now_ns += kSecond / 10;
      return Time::nanoseconds(now_ns);
    });
  }
  // The error of a departure this far ahead, in ns of the device's clock.
  double error_ns(const SendTimestamp& timestamp, std::int64_t ahead_ns) {
    const std::int64_t at = now_ns;
    now_ns += ahead_ns;
    const double exact_ticks = exact();
    const auto due = static_cast<double>(timestamp.device_time(Time::nanoseconds(now_ns)));
    now_ns = at;
    return std::abs(due - exact_ticks) / ticks_per_ns;
  }
};

// The resolution of doubles at 2^53 ns, and of the clock's own ticks.
constexpr double kResolutionNs = 50;

TEST(SenderSendTimestamp, FollowsAClockThatDrifts) {
  for (const double ticks_per_ns : {1.0, 0.15625, 2.7}) {  // 156.25 MHz: a NIC's own
    for (const double drift : {0.0, 100.0, -100.0}) {
      Clocks clocks{.ticks_per_ns = ticks_per_ns, .drift_ppm = drift};
      clocks.drift_growth_ppm = 0.1;
      SendTimestamp timestamp = clocks.make();
      for (int second = 0; second < 60; ++second) {
        // At most what it drifts in the second since the rate was measured.
        ASSERT_LT(clocks.error_ns(timestamp, kSecond), 200 + kResolutionNs) << second;
        ASSERT_LT(clocks.error_ns(timestamp, SendTimestamp::kLead.ns()), kResolutionNs);
        clocks.now_ns += kSecond;
        timestamp.sync(Time::nanoseconds(clocks.now_ns));
      }
    }
  }
}

TEST(SenderSendTimestamp, ReadingsAreOffByATripOverPcie) {
  Clocks clocks{.drift_ppm = 30, .reading_error_ns = 1000};
  SendTimestamp timestamp = clocks.make();
  // The first tenth of a second gives the rate to within 2e-5; a second later it is known to within
  // 2e-6.
  EXPECT_LT(clocks.error_ns(timestamp, kSecond), 22'000);
  for (int second = 0; second < 10; ++second) {
    clocks.now_ns += kSecond;
    timestamp.sync(Time::nanoseconds(clocks.now_ns));
    ASSERT_LT(clocks.error_ns(timestamp, kSecond), 3'100);
  }
}

// A worker that starts right after the first measurement must not measure over the short time in
// between.
TEST(SenderSendTimestamp, AReadingSoonAfterAnotherDoesNotSpoilTheRate) {
  Clocks clocks{.reading_error_ns = 1000};
  SendTimestamp timestamp = clocks.make();
  for (int i = 0; i < 5; ++i) {
    clocks.now_ns += 20'000;
    timestamp.sync(Time::nanoseconds(clocks.now_ns));
    ASSERT_LT(clocks.error_ns(timestamp, kSecond), 22'000);
  }
}

// Set by hand or by a PTP daemon, in either direction: the new time counts, and the rate stays.
TEST(SenderSendTimestamp, AClockThatIsSetCountsFromThenOn) {
  for (const double step : {10e9, -10e9, 5e6, -5e6}) {
    Clocks clocks{.drift_ppm = 50};
    SendTimestamp timestamp = clocks.make();
    clocks.offset += step;
    clocks.now_ns += kSecond;
    timestamp.sync(Time::nanoseconds(clocks.now_ns));
    EXPECT_LT(clocks.error_ns(timestamp, kSecond), 200 + kResolutionNs) << step;
  }
}

TEST(SenderSendTimestamp, IsOffWithoutAClockAndMarksWithOne) {
  const char* arguments[] = {"test",           "--no-huge", "--no-shconf", "--no-pci",
                             "--no-telemetry", "-m",        "32",          "--log-level=error"};
  ASSERT_GT(rte_eal_init(std::size(arguments), const_cast<char**>(arguments)), 0);
  Clocks unreadable{.readable = false};
  EXPECT_FALSE(unreadable.make().on());
  Clocks stopped{.ticks_per_ns = 0};
  EXPECT_FALSE(stopped.make().on());
  EXPECT_FALSE(SendTimestamp().on());

  Clocks clocks;
  const SendTimestamp timestamp = clocks.make();
  ASSERT_TRUE(timestamp.on());
  rte_mbuf mbuf{};
  const Time due = Time::nanoseconds(clocks.now_ns) + SendTimestamp::kLead;
  timestamp.mark(&mbuf, due);
  const int offset = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, nullptr);
  const int bit = rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_TX_TIMESTAMP_NAME, nullptr);
  ASSERT_GE(offset, 0);
  ASSERT_GE(bit, 0);
  EXPECT_EQ(mbuf.ol_flags, 1ull << bit);
  EXPECT_EQ(*RTE_MBUF_DYNFIELD(&mbuf, offset, rte_mbuf_timestamp_t*), timestamp.device_time(due));
  rte_eal_cleanup();
}

}  // namespace
}  // namespace tiercast::sender
