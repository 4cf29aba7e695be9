// RED on arrival: the rules of ns-2's red.cc one by one, and its place in the traffic manager.
// tests/ns3/red_test.cpp runs it beside ns-3's.
#include "dataplane/engine/queues/red.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "dataplane/engine/packet/ipv4_ecn.h"
#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum Red::Verdict;

constexpr double kRate = 8e6;  // bit/s: 1000 bytes in 1 ms

// The average is what a packet finds, so that the chance of each is known.
RedConfig immediate() { return {.weight = 1}; }

TEST(Red, TheAverageIsUpdatedAtEveryArrival) {
  Red red({.weight = 0.25}, 1);
  double average = 0;
  for (const std::uint32_t waiting : {4u, 0u, 9u, 9u, 1u}) {
    red.arrive(waiting, Red::kBusy, kRate);
    average = 0.75 * average + 0.25 * waiting;
    EXPECT_DOUBLE_EQ(red.average(), average);
  }
}

// red.cc: m = int(ptc * idle time), and the estimator runs for m + 1 packets that find nothing.
TEST(Red, AfterIdlingTheAverageIsThatOfTheSmallPacketsThatTheLinkCouldHaveSent) {
  for (const auto& [idle_ns, small_packets] : std::map<std::int64_t, int>{
           {0, 0}, {499'999, 0}, {500'000, 1}, {5 * kMillisecond, 10}, {5'300'000, 10}}) {
    Red red({.weight = 0.25, .mean_packet_bytes = 500}, 1);  // 0.5 ms each
    for (int i = 0; i < 40; ++i) red.arrive(8, Red::kBusy, kRate);
    const double before = red.average();
    red.arrive(0, idle_ns, kRate);
    EXPECT_NEAR(red.average(), before * std::pow(0.75, small_packets + 1), 1e-12) << idle_ns;
  }
}

TEST(Red, ALinkThatIdledForADayHasAnAverageOfZero) {
  Red red({.weight = 0.002}, 1);
  for (int i = 0; i < 10000; ++i) red.arrive(100, Red::kBusy, kRate);
  red.arrive(0, 86'400'000 * kMillisecond, kRate);
  EXPECT_LT(red.average(), 1e-100);
}

TEST(Red, BelowTheLowerThresholdNothingHappens) {
  Red red({.weight = 1, .wait = false}, 1);
  for (int i = 0; i < 10000; ++i) ASSERT_EQ(red.arrive(4, Red::kBusy, kRate), kPass);
}

TEST(Red, AboveTheUpperThresholdEveryPacketIsForced) {
  Red red(immediate(), 1);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(red.arrive(15, Red::kBusy, kRate), kForced);
}

TEST(Red, GentleForcesOnlyFromTwiceTheUpperThresholdOn) {
  RedConfig config = immediate();
  config.gentle = true;
  Red red(config, 1);
  int early = 0;
  for (int i = 0; i < 20000; ++i) {
    const Red::Verdict verdict = red.arrive(29, Red::kBusy, kRate);
    ASSERT_NE(verdict, kForced);
    early += verdict == kEarly;
  }
  // p_b = 0.1 + 0.9 * 14 / 15 = 0.94: with `wait`, the first packet after a drop is spared and the
  // second (count 2, sum 1.88) has 0.94 / 0.12, which is 1.
  EXPECT_NEAR(early, 10000, 1);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(red.arrive(30, Red::kBusy, kRate), kForced);
}

// red.cc: `qlen > 1`, whatever the average is.
TEST(Red, APacketThatFindsFewerThanTwoIsSpared) {
  Red red({.weight = 0.002}, 1);
  for (int i = 0; i < 10000; ++i) red.arrive(100, Red::kBusy, kRate);
  ASSERT_GT(red.average(), 90);
  for (const std::uint32_t waiting : {0u, 1u}) {
    EXPECT_EQ(red.arrive(waiting, Red::kBusy, kRate), kPass);
  }
  EXPECT_EQ(red.arrive(2, Red::kBusy, kRate), kForced);
}

// p_b = 0.5. The first packet above the threshold only starts the count (red.cc: old == 0). Without
// `wait` the next has count 2 and count * p_b = 1, and after a drop count is 1: 0.5 / (1 - 0.5).
TEST(Red, TheCountBeginsWhereTheAverageRisesAboveTheThreshold) {
  Red red({.max_p = 1, .weight = 1, .wait = false}, 1);
  const auto of = [&](std::uint32_t waiting) { return red.arrive(waiting, Red::kBusy, kRate); };
  EXPECT_EQ(of(10), kPass);
  EXPECT_EQ(of(10), kEarly);
  EXPECT_EQ(of(10), kEarly);
  EXPECT_EQ(of(4), kPass);
  EXPECT_EQ(of(10), kPass);
  EXPECT_EQ(of(10), kEarly);
}

// p_b = 0.5: with `wait` nothing while count * p_b < 1, and then 0.5 / (2 - 1), 0.5 / (2 - 1.5)
// = 1.
TEST(Red, WaitSparesTheFirstPackets) {
  Red red({.max_p = 1, .weight = 1}, 1);
  std::map<int, int> distances;
  int distance = 0;
  for (int i = 0; i < 20000; ++i) {
    ++distance;
    if (red.arrive(10, Red::kBusy, kRate) == kEarly) {
      ++distances[distance];
      distance = 0;
    }
  }
  ASSERT_EQ(distances.size(), 2u) << "2 and 3 packets apart";
  // Either as often as the other; four standard deviations of some 8000 draws.
  EXPECT_NEAR(distances[2], distances[3], 4 * std::sqrt(8000));
}

// Floyd and Jacobson 1993, section 7: drops are uniform on so many packets after the one before. By
// red.cc the packet itself counts: 1 .. 1/p_b - 1 without `wait`, and 1/p_b .. 2/p_b - 1 with it.
TEST(Red, DropsAreSpreadEvenly) {
  for (const bool wait : {false, true}) {
    SCOPED_TRACE(wait);
    Red red({.weight = 1, .wait = wait}, 7);  // p_b = 0.1 * 5 / 10 = 1/20
    std::map<int, int> distances;
    int distance = 0, drops = 0;
    while (drops < 40'000) {
      ++distance;
      if (red.arrive(10, Red::kBusy, kRate) != kEarly) continue;
      if (++drops > 1) ++distances[distance];
      distance = 0;
    }
    const int first = wait ? 20 : 1, places = wait ? 20 : 19;
    EXPECT_EQ(distances.begin()->first, first);
    EXPECT_EQ(distances.rbegin()->first, first + places - 1);
    double chi_square = 0;
    const double expected = (drops - 1.0) / places;
    for (const auto& [at, count] : distances) {
      chi_square += (count - expected) * (count - expected) / expected;
    }
    EXPECT_LT(chi_square, 45) << "19 degrees of freedom: one in 1400 is above 45";
  }
}

// red.cc, unless ns1_compat_ is set: a forced drop is a drop like any other.
TEST(Red, AForcedDropRestartsTheCount) {
  Red red({.max_p = 1, .weight = 1}, 1);  // p_b = 0.5; with `wait` nothing below a count of 2
  const auto of = [&](std::uint32_t waiting) { return red.arrive(waiting, Red::kBusy, kRate); };
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(of(15), kForced);
    red.forced_drop();
    EXPECT_EQ(of(10), kPass) << "count 1";  // the first of all passes, too: it begins the count
  }
  // Without the restart the count would have gone on, and each packet been hit.
  EXPECT_EQ(of(15), kForced);
  EXPECT_EQ(of(15), kForced);
  EXPECT_EQ(of(15), kForced);
  EXPECT_EQ(of(10), kEarly);
}

TEST(Red, NewParametersKeepTheAverage) {
  Red red({.weight = 0.5}, 1);
  for (int i = 0; i < 50; ++i) red.arrive(12, Red::kBusy, kRate);
  red.set({.min_th = 1, .max_th = 3, .weight = 0.5});
  EXPECT_NEAR(red.average(), 12, 1e-6);
  EXPECT_EQ(red.arrive(12, Red::kBusy, kRate), kForced);
}

TEST(Red, MarksEarlyOnesAndForcedOnesOnlyWhereItIsToldTo) {
  EXPECT_FALSE(Red({}, 1).marks(kEarly));
  const Red ecn({.ecn = true}, 1);
  EXPECT_TRUE(ecn.marks(kEarly));
  EXPECT_FALSE(ecn.marks(kForced));
  EXPECT_TRUE(Red({.ecn = true, .mark_above_max = true}, 1).marks(kForced));
}

TEST(Red, WrongParametersAreNamed) {
  EXPECT_EQ(Red::wrong({}), "");
  EXPECT_THAT(Red::wrong({.min_th = 15}), HasSubstr("min_th 15.0"));
  EXPECT_THAT(Red::wrong({.min_th = -1}), HasSubstr("min_th -1.0"));
  EXPECT_THAT(Red::wrong({.max_th = 1e10}), HasSubstr("valid: above 0, to 2^31"));
  for (const double wrong : {0.0, -0.1, 1.1, std::nan("")}) {
    EXPECT_THAT(Red::wrong({.max_p = wrong}), HasSubstr("max_p"));
    EXPECT_THAT(Red::wrong({.weight = wrong}), HasSubstr("weight"));
    EXPECT_THAT(Red::wrong({.mean_packet_bytes = wrong - 1}), HasSubstr("mean_packet_bytes"));
  }
  EXPECT_THAT(Red::wrong({.max_th = std::nan("")}), HasSubstr("max_th"));
  EXPECT_THAT(Red::wrong({.min_th = std::nan("")}), HasSubstr("min_th"));
}

// --- In the traffic manager ---

Frame probe_to(std::uint32_t port = kOut) {  // probe.p4's, of 1000 bytes: 1 ms
  return FrameBuilder().put(port, 8).put(0, 8).pad_to(1000).take();
}

PortConfig link(const RedConfig& red, std::uint32_t queue = 0) {
  return {.rate_bps = kRate, .queue_packets = queue, .red = red};
}

// So many at once at an idle link: the first goes, and each other one finds one more.
void burst(Bench& bench, int packets, std::uint32_t port = kOut) {
  for (int i = 0; i < packets; ++i) bench.receive(1, probe_to(port));
}

TEST(RedQueue, ARefusedPacketTakesNoPlace) {
  Bench bench("probe");
  EXPECT_OK(bench.sw.set_port(kOut, link({.min_th = 1, .max_th = 3, .weight = 1, .wait = false})));
  burst(bench, 20);
  PortStats stats = bench.sw.stats(kOut);
  // Found waiting: - 0 1 2 2or3 ...: from 3 on all are forced, so never more than 3 wait.
  EXPECT_EQ(stats.queue_packets, 3u);
  EXPECT_EQ(stats.max_queue_packets, 3u);
  EXPECT_EQ(stats.enqueued_packets, 4u);
  EXPECT_EQ(stats.early_dropped_packets, 16u);
  EXPECT_EQ(stats.dropped_packets, 0u);
  bench.finish();
  EXPECT_EQ(bench.sw.stats(kOut).tx_packets, 4u);
  const auto labels = bench.sw.label_counts(kOut);
  ASSERT_EQ(labels.size(), 1u);
  EXPECT_EQ(labels[0], (LabelCounts{.entered = 20, .served = 4, .early_dropped = 16}));
}

TEST(RedQueue, AFullQueueComesFirstAndItsPacketsCountForTheAverage) {
  Bench bench("probe");
  EXPECT_OK(bench.sw.set_port(kOut, link({.min_th = 2, .max_th = 4, .weight = 0.5}, 4)));
  burst(bench, 20);
  // The average is above 4 only where packets that found the full queue of 4 have counted: never,
  // but it comes within 2^-12 of it, so that what follows is dropped by chance or by the queue.
  PortStats stats = bench.sw.stats(kOut);
  EXPECT_EQ(stats.queue_packets, 4u);
  EXPECT_EQ(stats.dropped_packets + stats.early_dropped_packets, 15u);
  EXPECT_EQ(stats.dropped_packets, 15u) << "a place in the queue was never free";
  // One leaves, and the next finds 3: an average of 3.5, with a p_b of 0.075.
  bench.now += 1'000'000;
  bench.sw.advance(bench.now);
  burst(bench, 1);
  EXPECT_EQ(bench.sw.stats(kOut).queue_packets, 4u);
  // The average of 4 - 2^-15 has counted those 15: with an upper threshold below it all are forced.
  bench.now += 1'000'000;
  bench.sw.advance(bench.now);
  EXPECT_OK(bench.sw.set_port(kOut, link({.min_th = 2, .max_th = 3, .weight = 0.5}, 4), bench.now));
  burst(bench, 1);
  EXPECT_EQ(bench.sw.stats(kOut).early_dropped_packets, 1u);
}

TEST(RedQueue, WithoutARateItDoesNothing) {
  Bench bench("probe");
  EXPECT_OK(bench.sw.set_port(kOut, {.red = RedConfig{.min_th = 0, .max_th = 0.1, .weight = 1}}));
  burst(bench, 100);
  EXPECT_EQ(bench.sw.stats(kOut).tx_packets, 100u);
}

TEST(RedQueue, CountsTheQueuesOfAllFlowsTogether) {
  Bench bench("probe");
  PortConfig config = link({.min_th = 1, .max_th = 3, .weight = 1, .wait = false});
  config.fair_queueing = true;
  EXPECT_OK(bench.sw.set_port(kOut, config));
  burst(bench, 20);
  EXPECT_EQ(bench.sw.stats(kOut).queue_packets, 3u);
}

TEST(RedQueue, GoesWhenThePortIsSetWithoutIt) {
  Bench bench("probe");
  EXPECT_OK(bench.sw.set_port(kOut, link({.min_th = 1, .max_th = 3, .weight = 1})));
  burst(bench, 20);
  EXPECT_OK(bench.sw.set_port(kOut, {.rate_bps = kRate}, bench.now));
  burst(bench, 20);
  EXPECT_EQ(bench.sw.stats(kOut).queue_packets, 23u);
}

TEST(RedQueue, RefusesWrongParametersByName) {
  Bench bench("probe");
  const Status status = bench.sw.set_port(kOut, link({.max_p = 2}));
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "port 2: red: max_p 2.000000, valid: above 0, to 1");
}

// Which of 2000 packets at an overloaded link are dropped.
std::vector<std::size_t> dropped(std::uint64_t seed, std::uint32_t port) {
  Bench bench("probe", {.seed = seed});
  EXPECT_OK(bench.sw.set_port(port, link({.weight = 0.02})));
  std::vector<std::size_t> gone;
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::uint64_t before = bench.sw.stats(port).early_dropped_packets;
    bench.now += 900'000;
    bench.receive(1, probe_to(port));
    if (bench.sw.stats(port).early_dropped_packets != before) gone.push_back(i);
  }
  return gone;
}

TEST(RedQueue, ItsDrawsFollowFromTheSwitchesSeedAndThePort) {
  const auto first = dropped(1, 2);
  EXPECT_GT(first.size(), 100u);
  EXPECT_EQ(dropped(1, 2), first);
  EXPECT_NE(dropped(2, 2), first);
  EXPECT_NE(dropped(1, 3), first);
}

// --- The mark itself ---

Frame ipv4(unsigned tos, unsigned checksum) {
  return FrameBuilder()
      .put(1, 48)
      .put(2, 48)
      .put(0x0800, 16)
      .put(0x45, 8)
      .put(tos, 8)
      .put(40, 16)
      .put(0, 32)
      .put(64, 8)
      .put(17, 8)
      .put(checksum, 16)
      .put(0x0a000002, 32)
      .put(0x0a000102, 32)
      .pad_to(54)
      .take();
}

std::uint32_t sum(const Frame& frame) {  // RFC 1071; 0xffff: the checksum is right
  std::uint64_t all = 0;
  for (std::size_t i = 14; i < 34; i += 2) all += number_at(frame, i, 2);
  while (all > 0xffff) all = (all & 0xffff) + (all >> 16);
  return static_cast<std::uint32_t>(all);
}

TEST(Ipv4Ecn, OfNoOtherFrameThanIpv4) {
  EXPECT_FALSE(is_ecn_capable(ipv4(0, 0)));
  for (const unsigned ecn : {1u, 2u, 3u}) EXPECT_TRUE(is_ecn_capable(ipv4(0xb8 | ecn, 0)));
  Frame other = ipv4(2, 0);
  other[12] = std::byte{0x86};
  EXPECT_FALSE(is_ecn_capable(other));
  other = ipv4(2, 0);
  other[14] = std::byte{0x65};
  EXPECT_FALSE(is_ecn_capable(other));
  other = ipv4(2, 0);
  other.resize(33);
  EXPECT_FALSE(is_ecn_capable(other));
  EXPECT_FALSE(is_ecn_capable({}));
}

// For every type of service and every sum there is: a checksum that was right or wrong stays so.
TEST(Ipv4Ecn, TheMarkKeepsTheSum) {
  for (unsigned tos = 0; tos < 256; ++tos) {
    if (tos % 4 == 0) continue;
    for (unsigned checksum = 0; checksum < 0x10000; checksum += 97) {
      Frame frame = ipv4(tos, checksum);
      const std::uint32_t before = sum(frame);
      mark_congestion(frame);
      ASSERT_EQ(number_at(frame, 15, 1), tos | 3);
      ASSERT_EQ(sum(frame), before) << tos << " " << checksum;
    }
  }
}

}  // namespace
}  // namespace tiercast::engine
