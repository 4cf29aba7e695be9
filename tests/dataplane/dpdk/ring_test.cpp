#include "dataplane/dpdk/ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <thread>
#include <vector>

namespace tiercast::dpdk {
namespace {

TEST(DpdkRing, EveryValueOnceAndInOrderBetweenTwoThreads) {
  constexpr unsigned kValues = 200'000;
  Ring<unsigned> ring(100);
  std::thread writer([&ring] {
    for (unsigned i = 0; i < kValues;) {
      if (ring.push(i)) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  unsigned value = 0;
  for (unsigned expected = 0; expected < kValues;) {
    if (!ring.pop(value)) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(value, expected++);
  }
  writer.join();
  EXPECT_TRUE(ring.empty());
}

TEST(DpdkRing, AFullRingRefuses) {
  Ring<int> ring(4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(i));
  EXPECT_FALSE(ring.push(4));
  int value;
  EXPECT_TRUE(ring.pop(value));
  EXPECT_TRUE(ring.push(4));
}

TEST(DpdkRing, ManyAtOnceAreThoseThatFit) {
  Ring<int> ring(4);
  const std::array<int, 3> three{1, 2, 3};
  EXPECT_EQ(ring.push(std::span(three)), 3u);
  EXPECT_EQ(ring.push(std::span(three)), 1u);
  std::array<int, 8> out{};
  EXPECT_EQ(ring.pop(std::span(out).first(2)), 2u);
  EXPECT_EQ(ring.push(std::span(three)), 2u);
  EXPECT_EQ(ring.pop(std::span(out)), 4u);
  EXPECT_THAT(std::span(out).first(4), testing::ElementsAre(3, 1, 1, 2));
  EXPECT_EQ(ring.pop(std::span(out)), 0u);
}

}  // namespace
}  // namespace tiercast::dpdk
