// Marking above a threshold and drop tail at a limit, by the current queue length.
#include <gtest/gtest.h>

#include "tests/p4src/bench.h"

namespace tiercast::p4test {
namespace {

class Threshold : public SwitchTest {
 protected:
  Threshold() {
    bench.limit(2, 8e6, 0);
    bench.host("10.0.1.2", 2, 0x020000000202);
  }
  // The first finds the link idle, the second finds nothing waiting, and so on.
  std::vector<Frame> burst(int count, std::uint8_t ecn) {
    bench.finish();
    bench.advance(kMillisecond);
    bench.clear();
    for (int i = 0; i < count; ++i) {
      Packet packet;
      packet.ecn = ecn;
      packet.identification = static_cast<std::uint16_t>(i);
      bench.receive(1, packet);
    }
    bench.finish();
    return bench.sent_on(2);
  }
};

TEST_F(Threshold, MarksWhatFoundMoreWaiting) {
  for (std::uint32_t threshold : {0u, 1u, 5u, 20u}) {
    bench.threshold_marking(2, threshold);
    const auto out = burst(15, kEct1);
    ASSERT_EQ(out.size(), 15u);
    for (std::uint32_t i = 0; i < 15; ++i) {
      const std::uint32_t waiting = i == 0 ? 0 : i - 1;
      EXPECT_EQ(ecn(out[i]), waiting > threshold ? kCe : kEct1) << i;
      EXPECT_TRUE(checksum_right(out[i]));
    }
  }
}

TEST_F(Threshold, DoesNotMarkWhatIsNotEct) {
  bench.threshold_marking(2, 0);
  for (const Frame& frame : burst(5, kNotEct)) EXPECT_EQ(ecn(frame), kNotEct);
  EXPECT_EQ(bench.egress(2).marked, 0u);
}

TEST_F(Threshold, DropTailKeepsAsManyAsItsLimit) {
  for (std::uint32_t limit : {1u, 4u, 10u}) {
    const std::uint64_t before = bench.egress(2).dropped;
    bench.drop_tail(2, limit);
    const auto out = burst(20, kEct0);
    ASSERT_EQ(out.size(), limit + 1) << "and the one in service";
    for (std::uint32_t i = 0; i <= limit; ++i) EXPECT_EQ(identification(out[i]), i);
    EXPECT_EQ(bench.egress(2).dropped - before, 19 - limit);
  }
}

TEST_F(Threshold, APortCanChangeItsPolicy) {
  bench.threshold_marking(2, 0);
  burst(5, kEct0);
  bench.marking(2, 0);
  burst(5, kEct0);
  EXPECT_GT(bench.avg_queue(2), 0u);
  bench.no_marking(2);
  for (const Frame& frame : burst(5, kEct0)) EXPECT_EQ(ecn(frame), kEct0);
  EXPECT_EQ(bench.avg_queue(2), 0u);
}

}  // namespace
}  // namespace tiercast::p4test
