// CoDel: when packets are dropped or marked, by RFC 8289.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/p4src/bench.h"

namespace tiercast::p4test {
namespace {

constexpr std::int64_t kService = kMillisecond;  // of a packet of 1000 bytes at 8 Mbit/s

class Codel : public SwitchTest {
 protected:
  Codel() {
    bench.limit(kPort, 8e6, 0);
    bench.host("10.0.1.2", kPort, 0x020000000202);
  }

  void receive(int count, std::uint8_t ecn = kNotEct) {
    Packet packet;
    packet.ecn = ecn;
    packet.payload.resize(980);
    for (int i = 0; i < count; ++i) bench.receive(1, packet);
  }

  // `waiting` packets wait from now on, as each that leaves or is dropped is replaced, for so many
  // packet times. Returns when packets were dropped or marked: ms from now, each time the packet's
  // turn.
  std::vector<std::int64_t> hold(int waiting, int packets, std::uint8_t ecn = kNotEct) {
    std::vector<std::int64_t> hits;
    const std::int64_t start = bench.now();
    std::uint64_t before = hit();
    receive(waiting + 1, ecn);
    for (int i = 0; i < packets; ++i) {
      bench.advance(kService);
      const auto fresh = static_cast<int>(hit() - before);
      for (int n = 0; n < fresh; ++n) hits.push_back((bench.now() - start) / kMillisecond);
      receive(1 + (ecn == kNotEct ? fresh : 0), ecn);
      before = hit();
    }
    return hits;
  }

  std::uint64_t hit() const { return bench.egress(kPort).dropped + bench.egress(kPort).marked; }
};

TEST_F(Codel, NothingIsDroppedWhileSomePacketOfEachIntervalWaitsLessThanTheTarget) {
  bench.codel(kPort, {});
  EXPECT_TRUE(hold(4, 2000).empty()) << "waits of 4 ms, below the target";
  for (int i = 0; i < 30; ++i) {  // up to 60 ms, for 60 ms, and again after an idle link
    receive(60);
    bench.finish();
    bench.advance(kService);
  }
  EXPECT_EQ(hit(), 0u);
}

// Waits of 20 ms from the 20th ms on: above 5 ms from the 5th, so the first drop comes 100 ms later
// and then at gaps of 100 ms / sqrt(count), with the inverse square root by Newton's steps.
TEST_F(Codel, DropsFollowTheInverseSquareRoot) {
  bench.codel(kPort, {});
  const auto hits = hold(20, 3000);
  ASSERT_GT(hits.size(), 50u);
  EXPECT_EQ(hits[0], 105);
  double next = 105, y = 1;
  for (std::size_t i = 1; i < hits.size(); ++i) {
    next += 100 * y;
    y *= (3 - static_cast<double>(i + 1) * y * y) / 2;
    EXPECT_NEAR(static_cast<double>(hits[i]), std::ceil(next), 1 + 0.0005 * next) << i;
  }
  EXPECT_NEAR(y * std::sqrt(static_cast<double>(hits.size())), 1, 0.01);
}

TEST_F(Codel, EctPacketsAreMarkedAndOthersDropped) {
  bench.codel(kPort, {.ecn = true});
  const auto marked = hold(20, 1000, kEct1);
  EXPECT_GT(marked.size(), 10u);
  EXPECT_EQ(bench.egress(kPort).marked, marked.size());
  EXPECT_EQ(bench.egress(kPort).dropped, 0u);
  std::size_t ce = 0;
  for (const Frame& frame : bench.sent_on(kPort)) {
    ce += ecn(frame) == kCe;
    EXPECT_TRUE(checksum_right(frame));
  }
  EXPECT_EQ(ce, marked.size());
  bench.finish();
  bench.advance(100 * kMillisecond);
  EXPECT_FALSE(hold(20, 1000, kNotEct).empty());
  EXPECT_GT(bench.egress(kPort).dropped, 0u);
  bench.finish();
  bench.advance(100 * kMillisecond);
  EXPECT_TRUE(hold(20, 1000, kCe).empty()) << "marked before";
}

// RFC 8289, 5.4 (delta): soon after, dropping starts at the rate that it had reached; after 16
// intervals, anew.
TEST_F(Codel, DroppingResumesAtItsRateIfItWasNotLongAgo) {
  for (const bool soon : {true, false}) {
    Codel::SetUp();
    bench.codel(kPort, {});
    const auto first = hold(20, 2000);
    bench.finish();
    bench.advance((soon ? 200 : 2000) * kMillisecond);
    const auto again = hold(20, 300);
    ASSERT_GE(again.size(), 2u);
    EXPECT_EQ(again[0], 105);
    if (soon) {
      EXPECT_LT(again[1] - again[0], 3 * (first.back() - first[first.size() - 2]) / 2);
    } else {
      EXPECT_EQ(again[1] - again[0], 100);
    }
  }
}

TEST_F(Codel, AQueueOfOnePacketIsNeverTooLong) {
  bench.limit(kPort, 80e3, 0);  // 100 ms a packet
  bench.codel(kPort, {});
  for (int i = 0; i < 100; ++i) {
    receive(2);
    bench.advance(200 * kMillisecond);
  }
  EXPECT_EQ(hit(), 0u);
}

TEST_F(Codel, TheClockMayWrap) {
  bench.advance_to((std::int64_t{1} << 32) * kMicrosecond - 500 * kMillisecond);
  bench.codel(kPort, {});
  const auto hits = hold(20, 2000);
  bench.finish();
  ASSERT_GT(hits.size(), 30u);
  EXPECT_EQ(hits[0], 105);
  for (std::size_t i = 1; i < hits.size(); ++i) EXPECT_LE(hits[i] - hits[i - 1], 101);
}

}  // namespace
}  // namespace tiercast::p4test
