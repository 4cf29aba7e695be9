#include <gtest/gtest.h>

#include <utility>

#include "protocols/common/departures.h"
#include "protocols/common/ewma.h"
#include "protocols/common/exponential_timer.h"
#include "protocols/common/gap_detector.h"
#include "protocols/common/rate_meter.h"
#include "protocols/common/tcp_equation.h"

namespace tiercast {
namespace {

TEST(Ewma, FirstSampleSetsTheValue) {
  Ewma average(0.25);
  EXPECT_FALSE(average.valid());
  average.update(8);
  EXPECT_DOUBLE_EQ(average.value(), 8);
  average.update(4);
  EXPECT_DOUBLE_EQ(average.value(), 7);
}

using Order = GapDetector::Order;

std::uint32_t lost(GapDetector& gaps, std::uint32_t seq) { return gaps.receive(seq).lost; }
Order order(GapDetector& gaps, std::uint32_t seq) { return gaps.receive(seq).order; }

// PROTOCOLS 13.1: 2^32-3 .. 3 with one hole give exactly one loss.
TEST(GapDetector, CountsOneLossAcrossTheWrap) {
  GapDetector gaps;
  std::uint32_t all = 0;
  for (std::uint32_t seq = 0xfffffffd; seq != 4; ++seq) {
    if (seq != 0) all += lost(gaps, seq);
  }
  EXPECT_EQ(all, 1u);
}

TEST(GapDetector, TheFirstPacketIsNeverALoss) {
  GapDetector gaps;
  EXPECT_EQ(lost(gaps, 12345), 0u);
  EXPECT_EQ(lost(gaps, 12346), 0u);
  EXPECT_EQ(lost(gaps, 12350), 3u);
  gaps.reset();
  EXPECT_EQ(lost(gaps, 12400), 0u);
}

TEST(GapDetector, LateAndDuplicatePacketsAreIgnored) {
  GapDetector gaps;
  EXPECT_EQ(order(gaps, 10), Order::kNewest);
  EXPECT_EQ(lost(gaps, 13), 2u);
  for (const std::uint32_t late : {11u, 13u, 14u - (1 << 10)}) {
    const GapDetector::Packet packet = gaps.receive(late);
    EXPECT_EQ(packet.order, Order::kLate) << late;
    EXPECT_EQ(packet.lost, 0u) << late;
  }
  EXPECT_EQ(lost(gaps, 14), 0u);
}

TEST(GapDetector, ThreeFarPacketsInARowAreARestartedSender) {
  GapDetector gaps;
  gaps.receive(5000);
  EXPECT_EQ(lost(gaps, 5001 + (1 << 16)), 1u << 16);
  std::uint32_t first = 400'000'000;
  for (int direction = 0; direction < 2; ++direction) {  // forwards, then backwards
    EXPECT_EQ(order(gaps, first), Order::kStray);
    EXPECT_EQ(order(gaps, first + 2), Order::kStray);
    const GapDetector::Packet third = gaps.receive(first + 3);
    EXPECT_EQ(third.order, Order::kRestart);
    EXPECT_EQ(third.lost, 0u);
    EXPECT_EQ(lost(gaps, first + 5), 1u);
    first -= 1 << 12;
  }
}

// They are another sender's, or were on their way for long.
TEST(GapDetector, OtherFarPacketsAreIgnored) {
  GapDetector gaps;
  std::uint32_t seq = 9000;
  const auto next_is_newest = [&] {
    const GapDetector::Packet packet = gaps.receive(seq++);
    return packet.order == Order::kNewest && packet.lost == 0;
  };
  EXPECT_TRUE(next_is_newest());
  for (std::uint32_t i = 0; i < 10; ++i) {  // each second one comes from an old, longer path
    EXPECT_EQ(order(gaps, 7000 + i), Order::kStray);
    EXPECT_TRUE(next_is_newest());
  }
  for (std::uint32_t i = 1; i < 10; ++i) {  // not near each other
    EXPECT_EQ(order(gaps, seq + i * 100'000), Order::kStray);
  }
  EXPECT_TRUE(next_is_newest());
}

TEST(GapDetector, ALargestGapMayBeGiven) {
  GapDetector gaps;
  gaps.receive(1);
  EXPECT_EQ(gaps.receive(102, 100).lost, 100u);
  EXPECT_EQ(gaps.receive(204, 100).order, Order::kStray);
}

// PROTOCOLS 1.4.
TEST(TcpEquation, MatchesTheVectors) {
  struct Vector {
    double s, rtt, timeout, p, bytes_per_second;
  };
  constexpr Vector kVectors[] = {
      {1000, 0.1, 0.4, 0.01, 112332.2}, {1000, 0.1, 0.4, 0.001, 383843.6},
      {1000, 0.2, 0.8, 0.02, 36624.5},  {1000, 0.1, 0.4, 0.1, 17701.0},
      {500, 0.3, 1.2, 0.05, 6143.1},    {1000, 0.04, 0.16, 0.005, 414351.9},
      {1000, 0.1, 1.0, 0.3, 827.3},
  };
  for (const Vector& v : kVectors) {
    TcpPath path;
    path.packet_size = v.s;
    path.rtt = Duration::seconds(v.rtt);
    path.timeout = Duration::seconds(v.timeout);
    EXPECT_NEAR(tcp_throughput(path, v.p).bytes_per_second(), v.bytes_per_second,
                1e-4 * v.bytes_per_second);
    EXPECT_NEAR(tcp_loss_event_rate(path, Rate::bytes_per_second(v.bytes_per_second)), v.p,
                1e-3 * v.p);
    path.max_window = 1;
    EXPECT_LE(tcp_throughput(path, v.p).bytes_per_second(), v.s / v.rtt * (1 + 1e-12));
  }
}

TEST(TcpEquation, WithoutTheClampIsLowerAtHighLossOnly) {
  TcpPath clamped;
  clamped.rtt = Duration::milliseconds(100);
  clamped.timeout = Duration::milliseconds(400);
  TcpPath plain = clamped;
  plain.clamp = false;
  EXPECT_EQ(tcp_throughput(clamped, 0.29), tcp_throughput(plain, 0.29));
  EXPECT_GT(tcp_throughput(clamped, 0.4), tcp_throughput(plain, 0.4));
  EXPECT_EQ(tcp_throughput(plain, 7), tcp_throughput(plain, 1));
}

// PROTOCOLS 0.3: T = 1.5 s, lambda = 10.
TEST(ExponentialWait, MatchesTheQuantiles) {
  const Duration longest = Duration::milliseconds(1500);
  EXPECT_EQ(exponential_wait(longest, 10, 0), Duration::zero());
  EXPECT_NEAR(exponential_wait(longest, 10, 0.01).seconds(), 0.810, 0.001);
  EXPECT_NEAR(exponential_wait(longest, 10, 0.1).seconds(), 1.155, 0.001);
  EXPECT_NEAR(exponential_wait(longest, 10, 0.5).seconds(), 1.396, 0.001);
  EXPECT_NEAR(exponential_wait(longest, 10, 0.9).seconds(), 1.484, 0.001);
}

TEST(RateMeter, FollowsAStepWithinItsWindow) {
  RateMeter meter(Duration::seconds(1));
  Time now = Time::zero() + Duration::milliseconds(123);
  EXPECT_EQ(meter.rate(now), Rate::zero());
  const auto run = [&](double seconds, Duration gap) {
    for (const Time end = now + Duration::seconds(seconds); now < end; now = now + gap) {
      meter.add(now, 1000);
    }
  };
  run(3, Duration::milliseconds(10));
  EXPECT_NEAR(meter.rate(now).bytes_per_second(), 100'000, 5'000);  // one bin: 5 % (PROTOCOLS 0.3)
  run(1, Duration::milliseconds(5));
  EXPECT_NEAR(meter.rate(now).bytes_per_second(), 200'000, 10'000);
  now = now + Duration::milliseconds(500);
  EXPECT_NEAR(meter.rate(now).bytes_per_second(), 100'000, 10'000);
  now = now + Duration::seconds(2);
  EXPECT_EQ(meter.rate(now), Rate::zero());
}

TEST(RateMeter, AShortHistoryCountsFromTheFirstBytes) {
  RateMeter meter(Duration::seconds(1));
  Time now = Time::zero() + Duration::seconds(7);
  for (int i = 0; i < 20; ++i, now = now + Duration::milliseconds(10)) meter.add(now, 1000);
  EXPECT_NEAR(meter.rate(now).bytes_per_second(), 100'000, 1'000);
}

// Savage et al.: an acknowledgement proves no more than what its echo does. Stamps and numbers
// wrap.
TEST(Departures, AnEchoProvesWhatHadLeftByThen) {
  Departures departures(4);
  const auto by = [&](std::uint32_t stamp_us) {
    const auto left = departures.by(stamp_us);
    return left ? std::pair(left->highest, left->at_once) : std::pair(77u, 77u);
  };
  const std::pair none(77u, 77u);
  EXPECT_EQ(by(0), none);
  departures.note(0xfffffff0, 0xfffffffe);
  departures.note(10, 0xffffffff);
  departures.note(10, 0);  // two at the same instant
  departures.note(30, 0);  // a repetition
  EXPECT_EQ(by(0xfffffff0), std::pair(0xfffffffe, 1u));
  EXPECT_EQ(by(10), std::pair(0u, 2u));
  EXPECT_EQ(by(30), std::pair(0u, 0u));
  for (const std::uint32_t guess : {0xffffffefu, 0xfffffff1u, 9u, 11u, 29u, 31u}) {
    EXPECT_EQ(by(guess), none) << guess;
  }
  departures.note(40, 1);  // the oldest is forgotten
  EXPECT_EQ(by(0xfffffff0), none);
  EXPECT_EQ(by(40), std::pair(1u, 1u));
}

TEST(Departures, AProofStaysWhenALaterEchoIsOlder) {
  Departures departures(8);
  for (std::uint32_t i = 1; i <= 5; ++i) departures.note(100 * i, i);
  Proof proof;
  EXPECT_FALSE(proof.beyond(departures, 250, 2));  // no packet left then
  EXPECT_EQ(proof.beyond(departures, 300, 3), 0u);
  EXPECT_EQ(proof.beyond(departures, 300, 5), 2u);
  EXPECT_EQ(proof.beyond(departures, 200, 3), 0u);  // overtaken on its way
  EXPECT_EQ(proof.beyond(departures, 450, 4), 1u);  // a guess proves nothing
  EXPECT_EQ(proof.beyond(departures, 500, 4), 0u);
}

TEST(Departures, EachEchoIsOfOnePacket) {
  Departures departures(8);
  departures.note(100, 7);
  for (const std::uint32_t highest : {8u, 9u, 10u}) departures.note(200, highest);
  Proof proof;
  proof.beyond(departures, 100, 99);
  EXPECT_EQ(proof.echoed(), 7u);
  for (const std::uint32_t echoed : {8u, 9u, 10u, 10u}) {
    proof.beyond(departures, 200, 99);
    EXPECT_EQ(proof.echoed(), echoed);
    proof.beyond(departures, 150, 99);  // a guess
    EXPECT_EQ(proof.echoed(), echoed);
  }
}

}  // namespace
}  // namespace tiercast
