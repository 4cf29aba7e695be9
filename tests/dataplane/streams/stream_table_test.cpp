#include "dataplane/streams/stream_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/histogram.h"
#include "protocols/base/rng.h"
#include "protocols/wire/wire.h"

namespace tiercast::streams {
namespace {

constexpr std::uint32_t kSender = 0x0a000002;

DataFrame packet(std::uint32_t seq, std::int64_t sent_ns, std::int64_t arrival_ns) {
  DataFrame frame;
  frame.source = kSender;
  frame.group = wire::group_address(1, 0);
  frame.seq = seq;
  frame.ip_bytes = 1000;
  frame.stamped = true;
  frame.sent = static_cast<std::uint32_t>(sent_ns / 1000);
  frame.latency_ns = arrival_ns - sent_ns;
  return frame;
}

TEST(StreamTable, FindsEachOfAHundredThousandStreamsAndNoOther) {
  constexpr std::uint32_t kStreams = 100'000;
  StreamTable table(kStreams);
  const auto group = [](std::uint32_t i) {
    return wire::group_address(static_cast<std::uint16_t>(i / 8), static_cast<std::uint8_t>(i % 8));
  };
  for (std::uint32_t i = 0; i < kStreams; ++i) ASSERT_EQ(table.add(group(i), kSender), i);
  EXPECT_EQ(table.add(1, 1), StreamTable::kNone);
  EXPECT_EQ(table.size(), kStreams);
  DataFrame frame = packet(0, 0, 1000);
  for (std::uint32_t turn = 0; turn < 3; ++turn) {
    for (std::uint32_t i = 0; i < kStreams; ++i) {
      const std::uint32_t index = table.find(group(i), kSender);
      ASSERT_EQ(index, i);
      frame.seq = turn * 2 + i;  // one is lost between any two
      table.account(index, frame, 1000 + turn);
    }
  }
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    ASSERT_EQ(table[i].group, group(i));
    ASSERT_EQ(table[i].received(), 3u);
    ASSERT_EQ(table[i].sequence.lost(), 2u);
    ASSERT_EQ(table[i].bytes.get(), 3000u);
    ASSERT_EQ(table.find(group(i), kSender + 1), StreamTable::kNone);
  }
}

// After 2^31 us a serial comparison of times is the wrong way round, for as long again.
TEST(StreamTable, ASenderThatRestartsAfterALongSilenceIsSeen) {
  constexpr std::int64_t kMinute = 60'000'000'000;
  for (const std::int64_t silence : {10 * kMinute, 29 * kMinute, 31 * kMinute, 40 * kMinute,
                                     70 * kMinute, 75 * kMinute, 600 * kMinute}) {
    StreamTable table(1);
    table.add(wire::group_address(1, 0), kSender);
    std::int64_t now = 1'000'000'000;
    const auto arrive = [&](std::uint32_t seq) {
      now += 1'000'000;
      table.account(0, packet(seq, now - 5000, now), now);
    };
    for (std::uint32_t seq = 5000; seq < 5100; ++seq) arrive(seq);
    now += silence;
    for (std::uint32_t seq = 0; seq < 100; ++seq) arrive(seq);
    EXPECT_EQ(table[0].sequence.restarts(), 1u) << silence / kMinute;
    EXPECT_EQ(table[0].sequence.in_order(), 200u) << silence / kMinute;
    EXPECT_EQ(table[0].sequence.stale(), 0u) << silence / kMinute;
    EXPECT_EQ(table[0].sequence.lost(), 0u) << silence / kMinute;
  }
}

TEST(StreamTable, DelaysLieInTheirBin) {
  StreamTable table(1);
  table.add(wire::group_address(1, 0), kSender);
  Rng rng(7);
  std::vector<std::int64_t> latencies, gaps;
  std::int64_t sent = 1'000'000'000, last = 0, sum = 0;
  for (std::uint32_t seq = 0; seq < 20'000; ++seq) {
    sent += 1'000'000'000;
    // From nanoseconds to seconds, evenly in the exponent.
    const auto latency = static_cast<std::int64_t>(std::exp2(rng.uniform() * 29));
    table.account(0, packet(seq, sent, sent + latency), sent + latency);
    latencies.push_back(latency);
    sum += latency;
    if (seq > 0) gaps.push_back(sent + latency - last);
    last = sent + latency;
  }
  const Stream& stream = table[0];
  const auto check = [](std::vector<std::int64_t>& values, const DelayCounts& bins) {
    std::vector<std::uint64_t> expected(DelayBins::kBins);
    for (const std::int64_t value : values) {
      std::size_t bin = 0;
      while (DelayBins::upper_bound(bin) < value) ++bin;
      ++expected[bin];
    }
    for (std::size_t bin = 0; bin < DelayBins::kBins; ++bin) {
      ASSERT_EQ(bins.in_bin(bin), expected[bin]) << "up to " << DelayBins::upper_bound(bin);
    }
    std::sort(values.begin(), values.end());
    for (const double share : {0.01, 0.5, 0.99, 1.0}) {
      const auto exact = values[static_cast<std::size_t>(
          std::ceil(share * static_cast<double>(values.size())) - 1)];
      EXPECT_GE(bins.quantile(share), exact);
      EXPECT_LE(bins.quantile(share), std::max<std::int64_t>(exact + exact / 4, 255));
    }
  };
  check(latencies, stream.latency());
  check(gaps, stream.gaps());
  EXPECT_EQ(stream.latency_sum_ns, sum);
  EXPECT_EQ(stream.latency_min_ns, latencies.front());
  EXPECT_EQ(stream.latency_max_ns, latencies.back());
  EXPECT_EQ(stream.stamped.get(), latencies.size());
}

TEST(StreamTable, BinsAreContiguous) {
  for (std::size_t bin = 0; bin + 1 < DelayBins::kBins; ++bin) {
    EXPECT_EQ(DelayBins::bin_of(DelayBins::upper_bound(bin)), bin);
    EXPECT_EQ(DelayBins::bin_of(DelayBins::upper_bound(bin) + 1), bin + 1);
  }
  EXPECT_EQ(DelayBins::bin_of(-5), 0u);
  EXPECT_EQ(DelayBins::bin_of(INT64_MAX), DelayBins::kBins - 1);
}

TEST(StreamTable, CountsMarksAndExtents) {
  StreamTable table(1);
  table.add(wire::group_address(1, 0), kSender);
  std::int64_t now = 1'000'000;
  for (const std::uint32_t seq : {0u, 1u, 3u, 4u, 2u, 5u, 7u, 6u}) {
    DataFrame frame = packet(seq, seq * 1000, now += 1000);
    frame.ecn = seq % 2 == 0 ? wire::Ecn::kCe : wire::Ecn::kEct0;
    table.account(0, frame, now);
  }
  EXPECT_EQ(table[0].marked.get(), 4u);
  EXPECT_EQ(table[0].sequence.reordered(), 2u);
  EXPECT_EQ(table[0].extent_max.get(), 2u);
  EXPECT_EQ(table[0].extent_sum.get(), 3u);
  EXPECT_EQ(table[0].extents.get(), 2u);
  EXPECT_EQ(table[0].sequence.restarts(), 0u);
  EXPECT_EQ(table[0].last_gap_ns.load(), 1'000'000 + 7 * 1000);  // 7 came before 6
  EXPECT_EQ(table[0].longest_cut_ns.load(), 1000);
  table.account(0, packet(8, 8000, now + 5000), now + 5000);  // late, but none is missing
  table.account(0, packet(12, 12'000, now + 8000), now + 8000);
  EXPECT_EQ(table[0].longest_cut_ns.load(), 3000);
}

TEST(StreamTable, ARestartedSenderIsKnownByItsTimeUnlessItRepeatsPackets) {
  for (const bool repeats : {false, true}) {
    StreamTable table(1);
    table.add(wire::group_address(1, 0), kSender);
    std::int64_t now = 1'000'000'000;
    for (const std::uint32_t seq : {0u, 1u, 2u, 3u, 0u, 1u}) {
      now += 1'000'000;
      DataFrame frame = packet(seq, now, now + 500);
      frame.repeats = repeats;
      table.account(0, frame, now + 500);
    }
    EXPECT_EQ(table[0].sequence.restarts(), repeats ? 0u : 1u);
    EXPECT_EQ(table[0].sequence.duplicates(), repeats ? 2u : 0u);
    EXPECT_EQ(table[0].received(), 6u);
  }
}

}  // namespace
}  // namespace tiercast::streams
