// Exact counts of lost, duplicate and reordered packets, beside an oracle that keeps every arrival
// and applies RFC 4737's definitions literally.
#include "dataplane/streams/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "protocols/base/rng.h"

namespace tiercast::streams {
namespace {

struct Verdict {
  Order order = Order::kInOrder;
  std::uint32_t extent = 0;  // of a reordered packet
};

// RFC 4737 sections 3.2, 3.3 and 4.2.1, over numbers that do not wrap. The window is the only bound
// that it shares with what it judges.
class Oracle {
 public:
  Verdict arrive(std::int64_t seq) {
    if (!arrived_.empty() && seq < next_exp_ && next_exp_ - seq > Sequence::kWindow) {
      return {Order::kStale, 0};
    }
    if (!seen_.insert(seq).second) return {Order::kDuplicate, 0};
    arrived_.push_back(seq);
    if (arrived_.size() == 1 || seq >= next_exp_) {
      next_exp_ = seq + 1;
      return {Order::kInOrder, 0};
    }
    const auto i = arrived_.size() - 1;
    std::size_t j = 0;
    while (arrived_[j] <= seq) ++j;  // the earliest with a greater number
    return {Order::kReordered, static_cast<std::uint32_t>(i - j)};
  }
  std::uint64_t lost() const {
    return static_cast<std::uint64_t>(next_exp_ - *seen_.begin()) - seen_.size();
  }

 private:
  std::vector<std::int64_t> arrived_;
  std::set<std::int64_t> seen_;
  std::int64_t next_exp_ = 0;
};

// 0, 1, 2 ... with packets lost, doubled and delayed by up to `reach` places.
std::vector<std::int64_t> disturbed(Rng& rng, int packets, double loss, double doubling,
                                    double delay, std::uint64_t reach) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> places;  // where, which
  for (int i = 0; i < packets; ++i) {
    const auto place = [&] {
      const bool late = rng.uniform() < delay;
      return static_cast<std::uint64_t>(i) * 2 + (late ? 2 * rng.below(reach) + 1 : 0);
    };
    if (rng.uniform() >= loss) places.emplace_back(place(), i);
    if (rng.uniform() < doubling) places.emplace_back(place(), i);
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::int64_t> sequence;
  for (const auto& [at, seq] : places) sequence.push_back(seq);
  return sequence;
}

TEST(StreamSequence, AgreesWithTheDefinitionsOfRfc4737) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const double loss = rng.uniform() * 0.3;
    const double doubling = rng.uniform() * 0.2;
    const double delay = rng.uniform() * 0.3;
    const std::uint64_t reach = 1 + rng.below(seed % 3 == 0 ? 2000 : 40);
    // Many of them wrap.
    const auto start = static_cast<std::uint32_t>(0u - rng.below(3000));
    Oracle oracle;
    Sequence sequence;
    std::uint64_t in_order = 0, reordered = 0, duplicates = 0, stale = 0, unknown = 0;
    for (const std::int64_t seq : disturbed(rng, 3000, loss, doubling, delay, reach)) {
      const Verdict expected = oracle.arrive(seq);
      const Order order =
          sequence.arrive(start + static_cast<std::uint32_t>(seq), Departure::kNotLater);
      ASSERT_EQ(order, expected.order) << "packet " << seq;
      if (order == Order::kReordered) {
        if (sequence.extent() == Sequence::kUnknown) {
          ++unknown;
        } else {
          ASSERT_EQ(sequence.extent(), expected.extent) << "packet " << seq;
        }
      }
      in_order += order == Order::kInOrder;
      reordered += order == Order::kReordered;
      duplicates += order == Order::kDuplicate;
      stale += order == Order::kStale;
      ASSERT_EQ(sequence.lost(), oracle.lost());
    }
    EXPECT_EQ(sequence.in_order(), in_order);
    EXPECT_EQ(sequence.reordered(), reordered);
    EXPECT_EQ(sequence.duplicates(), duplicates);
    EXPECT_EQ(sequence.stale(), stale);
    EXPECT_TRUE(reach >= 10 || unknown == 0) << unknown;
  }
}

TEST(StreamSequence, TheExampleOfRfc4737) {
  // Appendix B.1's kind of example: 4 arrives after 5, 6, 7 and 8, so its extent is 4.
  Sequence sequence;
  for (const std::uint32_t seq : {1u, 2u, 3u, 5u, 6u, 7u, 8u}) {
    EXPECT_EQ(sequence.arrive(seq, Departure::kUnknown), Order::kInOrder);
  }
  EXPECT_EQ(sequence.lost(), 1u);
  EXPECT_EQ(sequence.arrive(4, Departure::kUnknown), Order::kReordered);
  EXPECT_EQ(sequence.extent(), 4u);
  EXPECT_EQ(sequence.lost(), 0u);
  EXPECT_EQ(sequence.arrive(4, Departure::kUnknown), Order::kDuplicate);
  EXPECT_EQ(sequence.arrive(9, Departure::kUnknown), Order::kInOrder);
}

TEST(StreamSequence, CountsALossOfMoreThanTheWindow) {
  Sequence sequence;
  sequence.arrive(10, Departure::kUnknown);
  sequence.arrive(10 + 1 + 5000, Departure::kUnknown);
  EXPECT_EQ(sequence.lost(), 5000u);
  EXPECT_EQ(sequence.arrive(5000, Departure::kUnknown), Order::kReordered);
  EXPECT_EQ(sequence.lost(), 4999u);
  EXPECT_EQ(sequence.arrive(500, Departure::kUnknown),
            Order::kStale);  // cannot be told from a duplicate
  EXPECT_EQ(sequence.lost(), 4999u);
}

TEST(StreamSequence, WhatIsOlderThanTheFirstBeginsTheEpochEarlier) {
  Sequence sequence;
  sequence.arrive(100, Departure::kUnknown);
  EXPECT_EQ(sequence.arrive(97, Departure::kUnknown), Order::kReordered);
  EXPECT_EQ(sequence.lost(), 2u);
  EXPECT_EQ(sequence.arrive(98, Departure::kUnknown), Order::kReordered);
  EXPECT_EQ(sequence.lost(), 1u);
}

TEST(StreamSequence, RunsThroughItsWholeRangeOfNumbers) {
  // Jumps of 2^20 lost packets cross the range four times.
  Sequence sequence;
  std::uint32_t seq = 7;
  sequence.arrive(seq, Departure::kUnknown);
  constexpr std::uint32_t kStep = 1u << 20;
  for (std::uint32_t i = 0; i < 4 * 4096; ++i) {
    seq += kStep;
    ASSERT_EQ(sequence.arrive(seq, Departure::kUnknown), Order::kInOrder);
    ASSERT_EQ(sequence.arrive(seq - 1, Departure::kUnknown), Order::kReordered);
    ASSERT_EQ(sequence.extent(), 1u);
  }
  EXPECT_EQ(sequence.lost(), 4ull * 4096 * (kStep - 2));
  EXPECT_EQ(sequence.restarts(), 0u);
}

TEST(StreamSequence, ARestartIsSeenFromARunOfPackets) {
  Sequence sequence;
  for (std::uint32_t seq = 50'000; seq < 50'010; ++seq) sequence.arrive(seq, Departure::kUnknown);
  sequence.arrive(50'011, Departure::kUnknown);
  for (const std::uint32_t seq : {0u, 1u, 2u}) {
    EXPECT_EQ(sequence.arrive(seq, Departure::kUnknown), Order::kStale);
  }
  EXPECT_EQ(sequence.arrive(3, Departure::kUnknown), Order::kRestart);
  EXPECT_EQ(sequence.restarts(), 1u);
  EXPECT_EQ(sequence.stale(), 0u);
  EXPECT_EQ(sequence.in_order(), 15u);
  EXPECT_EQ(sequence.arrive(5, Departure::kUnknown), Order::kInOrder);
  EXPECT_EQ(sequence.lost(), 2u);  // 50,010 and 4
}

TEST(StreamSequence, ALateRunThatWasSentEarlierIsNoRestart) {
  Sequence sequence;
  for (std::uint32_t seq = 50'000; seq < 50'010; ++seq) sequence.arrive(seq, Departure::kLater);
  for (std::uint32_t seq = 0; seq < 100; ++seq) {
    EXPECT_EQ(sequence.arrive(seq, Departure::kNotLater), Order::kStale);
  }
  EXPECT_EQ(sequence.restarts(), 0u);
  EXPECT_EQ(sequence.stale(), 100u);
}

TEST(StreamSequence, ARestartIsSeenFromTheTimeOfDeparture) {
  Sequence sequence;
  for (std::uint32_t seq = 0; seq < 10; ++seq) sequence.arrive(seq, Departure::kLater);
  // Within the window: without the time it would be a duplicate.
  EXPECT_EQ(sequence.arrive(0, Departure::kLater), Order::kRestart);
  EXPECT_EQ(sequence.arrive(1, Departure::kLater), Order::kInOrder);
  EXPECT_EQ(sequence.duplicates(), 0u);
  EXPECT_EQ(sequence.restarts(), 1u);
  EXPECT_EQ(sequence.in_order(), 12u);
}

TEST(StreamSequence, OnePacketFarAwayIsNoRestart) {
  Sequence sequence;
  for (std::uint32_t seq = 0; seq < 10; ++seq) sequence.arrive(seq, Departure::kUnknown);
  EXPECT_EQ(sequence.arrive(1u << 30, Departure::kUnknown), Order::kStale);
  EXPECT_EQ(sequence.arrive(10, Departure::kUnknown), Order::kInOrder);
  EXPECT_EQ(sequence.arrive((1u << 30) + 1, Departure::kUnknown), Order::kStale);
  EXPECT_EQ(sequence.lost(), 0u);
  EXPECT_EQ(sequence.restarts(), 0u);
}

}  // namespace
}  // namespace tiercast::streams
