// A wire that is down, loses, duplicates, jitters or reorders: counts by closed forms, times to the
// nanosecond. Each bound is 5 standard deviations: one correct wire in 1.7 million would miss it,
// and a seed that meets it always does.
#include "dataplane/engine/queues/wire.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>
#include <vector>

#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kPackets = 200'000;
constexpr double kDeviations = 5;

// Which of a wire's packets are lost.
std::vector<bool> losses(const LossModel& loss, std::uint64_t seed = 1, int packets = kPackets) {
  PacketPool pool(1);
  Wire wire;
  wire.set({.loss = loss}, seed);
  std::vector<bool> lost;
  for (int i = 0; i < packets; ++i) {
    Packet* packet = pool.take();
    packet->buffer = pool.take_buffer(100);
    lost.push_back(wire.impair(packet, i, pool) == Wire::Fate::kLost);
    pool.give(lost.back() ? packet : wire.pop());
  }
  return lost;
}

double count(const std::vector<bool>& lost) {
  return static_cast<double>(std::count(lost.begin(), lost.end(), true));
}

std::vector<int> bursts(const std::vector<bool>& lost) {
  std::vector<int> lengths;
  for (std::size_t i = 0; i < lost.size(); ++i) {
    if (!lost[i]) continue;
    if (i == 0 || !lost[i - 1]) lengths.push_back(0);
    ++lengths.back();
  }
  return lengths;
}

TEST(WireLoss, AtRandomIsBinomial) {
  for (const double p : {0.0001, 0.01, 0.5}) {
    const double deviation = std::sqrt(kPackets * p * (1 - p));
    EXPECT_NEAR(count(losses({.in_good = p})), kPackets * p, kDeviations * deviation) << p;
  }
  EXPECT_EQ(count(losses({.in_good = 1})), kPackets);
}

// Pearson's correlation of neighbours, which is 0 with a deviation of 1 / sqrt(n).
TEST(WireLoss, AtRandomIsIndependentOfThePacketBefore) {
  const std::vector<bool> lost = losses({.in_good = 0.1});
  double both = 0;
  for (std::size_t i = 1; i < lost.size(); ++i) both += lost[i] && lost[i - 1] ? 1 : 0;
  const double p = 0.1, correlation = (both / kPackets - p * p) / (p * (1 - p));
  EXPECT_NEAR(correlation, 0, kDeviations / std::sqrt(kPackets));
}

// Gilbert: all is lost in the bad state. The mean loss is p / (p + r), a burst is geometric with
// mean 1 / r, variance (1 - r) / r^2. Neighbours correlate by 1 - p - r, so the variance of the
// mean is the binomial one times (1 + c) / (1 - c), c = 1 - p - r.
TEST(WireLoss, InBurstsHasTheMeanAndTheBurstsOfTheGilbertModel) {
  for (const auto& [mean, burst] : {std::pair(0.01, 5.0), {0.1, 2.0}, {0.05, 20.0}, {0.2, 1.0}}) {
    const double r = 1 / burst, p = r * mean / (1 - mean), c = 1 - p - r;
    const std::vector<bool> lost = losses({.to_bad = p, .to_good = r, .in_bad = 1});
    const double deviation = std::sqrt(mean * (1 - mean) * (1 + c) / (1 - c) / kPackets);
    EXPECT_NEAR(count(lost) / kPackets, mean, kDeviations * deviation) << burst;
    const std::vector<int> lengths = bursts(lost);
    const auto number = static_cast<double>(lengths.size());
    const double of_burst = std::sqrt((1 - r) / (r * r) / number);
    EXPECT_NEAR(count(lost) / number, burst, kDeviations * of_burst + 1e-9) << burst;
    // Geometric: a share r of the bursts has one packet.
    const auto ones = static_cast<double>(std::count(lengths.begin(), lengths.end(), 1));
    EXPECT_NEAR(ones / number, r, kDeviations * std::sqrt(r * (1 - r) / number) + 1e-9);
  }
}

// Elliott: both states lose. The variance of the mean is bounded by that of the states.
TEST(WireLoss, InBothStatesHasElliottsMean) {
  const LossModel model{.to_bad = 0.02, .to_good = 0.1, .in_bad = 0.5, .in_good = 0.01};
  const double bad = 0.02 / 0.12, mean = bad * 0.5 + (1 - bad) * 0.01, c = 1 - 0.12;
  const double variance = mean * (1 - mean) + 2 * bad * (1 - bad) * 0.49 * 0.49 * c / (1 - c);
  EXPECT_NEAR(count(losses(model)) / kPackets, mean, kDeviations * std::sqrt(variance / kPackets));
}

TEST(WireLoss, IsThatOfItsSeed) {
  const LossModel model{.to_bad = 0.1, .to_good = 0.3, .in_bad = 0.9, .in_good = 0.1};
  EXPECT_EQ(losses(model, 7, 5000), losses(model, 7, 5000));
  EXPECT_NE(losses(model, 7, 5000), losses(model, 8, 5000));
}

// A share has no bad state, so a model that ended in it leaves nothing behind.
TEST(WireLoss, AtRandomAfterBurstsIsThatOfTheShareAlone) {
  PacketPool pool(1);
  Wire wire;
  const auto lose = [&](int packets) {
    int lost = 0;
    for (int i = 0; i < packets; ++i) {
      Packet* packet = pool.take();
      packet->buffer = pool.take_buffer(100);
      const bool is_lost = wire.impair(packet, i, pool) == Wire::Fate::kLost;
      pool.give(is_lost ? packet : wire.pop());
      lost += is_lost ? 1 : 0;
    }
    return lost;
  };
  for (const LossModel& between : {LossModel{}, LossModel{.in_good = 0.5}}) {
    wire.set({.loss = {.to_bad = 1, .to_good = 0.001, .in_bad = 1}}, 1);
    EXPECT_GT(lose(100), 0) << "it is in the bad state";
    wire.set({.loss = between}, 1);
    lose(1);
    wire.set({.loss = {.in_good = 0.1}}, 1);
    EXPECT_NEAR(lose(kPackets), kPackets * 0.1, kDeviations * std::sqrt(kPackets * 0.1 * 0.9));
  }
}

// probe.p4's frame, with a number.
Frame numbered_probe(std::uint32_t number) {
  return FrameBuilder()
      .put(kOut, 8)
      .put(0, 8)
      .put(0, 64)
      .put(0, 64)
      .put(0, 64)
      .put(0, 32)
      .put(number, 32)
      .pad_to(125)
      .take();
}

// Port 1 leads to port 2, where a packet takes 1 ms.
class WireOfAPort : public ::testing::Test {
 protected:
  static PortConfig link(const WireConfig& wire) {
    return {.rate_bps = 1e6, .delay_ns = 10 * kMillisecond, .wire = wire};
  }
  void port(const PortConfig& config, std::uint32_t number = kOut) {
    EXPECT_OK(bench.sw.set_port(number, config, bench.now));
  }
  void send(std::int64_t at, std::uint32_t number = 0) {
    bench.now = at;
    bench.receive(1, numbered_probe(number));
  }
  std::vector<std::uint64_t> numbers() const {
    std::vector<std::uint64_t> all;
    for (const auto& one : bench.out.sent) all.push_back(number_at(one.frame, 30, 4));
    return all;
  }
  std::vector<std::int64_t> dues() const {
    std::vector<std::int64_t> all;
    for (const auto& one : bench.out.sent) all.push_back(one.due_ns);
    return all;
  }
  PortStats stats(std::uint32_t port = kOut) { return bench.sw.stats(port); }
  LabelCounts label() const { return bench.sw.label_counts(kOut).at(0); }
  Bench bench{"probe"};
};

// At 2.5 ms packets 0 and 1 are on the wire, 2 is in service, 3 and 4 wait.
TEST_F(WireOfAPort, ThatGoesDownLosesWhatWaitsAndWhatIsOnTheWire) {
  port(link({}));
  for (std::uint32_t i = 0; i < 5; ++i) send(0, i);
  bench.now = 2'500'000;
  port(link({.up = false}));
  EXPECT_EQ(stats().lost_packets, 3u);
  EXPECT_EQ(stats().down_dropped_packets, 2u);
  EXPECT_EQ(stats().queue_packets, 0u);
  EXPECT_EQ(stats().queue_bytes, 0u);
  EXPECT_EQ(stats().on_wire_packets, 0u);
  EXPECT_EQ(bench.sw.next_event(), Switch::kNever);
  send(3 * kMillisecond, 5);
  EXPECT_EQ(label(), (LabelCounts{.entered = 6, .served = 3, .down_dropped = 3, .lost = 3}));
  bench.finish();
  EXPECT_THAT(numbers(), ElementsAre());
}

TEST_F(WireOfAPort, ThatComesUpWorksAtOnce) {
  port(link({}));
  for (std::uint32_t i = 0; i < 5; ++i) send(0, i);
  bench.now = 2'500'000;
  port(link({.up = false}));
  bench.now = 2'600'000;
  port(link({}));
  send(2'600'000, 7);
  bench.finish();
  EXPECT_THAT(numbers(), ElementsAre(7));
  EXPECT_THAT(dues(), ElementsAre(2'600'000 + 11 * kMillisecond));
}

// What was lost holds nothing up: neither on the wire, nor beside it.
TEST_F(WireOfAPort, ThatComesUpKeepsNoFrameBehindOnesThatWereLost) {
  for (const double held : {0.0, 1.0}) {
    bench.out.sent.clear();
    const std::int64_t start = bench.now;
    PortConfig before = link({.reorder = held});
    before.delay_ns = 1000 * kMillisecond;
    port(before);
    send(start, 1);
    bench.now = start + 2 * kMillisecond;
    port(link({.up = false}));
    port(link({.reorder = held}));
    send(start + 3 * kMillisecond, 2);
    bench.finish();
    EXPECT_THAT(numbers(), ElementsAre(2));
    EXPECT_THAT(dues(), ElementsAre(start + 14 * kMillisecond)) << held;
  }
}

TEST_F(WireOfAPort, TowardsAPortThatComesUpKeepsNoFrameBehindOnesThatWereLost) {
  port({.rx_delay_ns = 1000 * kMillisecond}, 1);
  send(0, 1);
  bench.now = kMillisecond;
  port({.rx_delay_ns = kMillisecond, .rx_wire = {.up = false}}, 1);
  port({.rx_delay_ns = kMillisecond}, 1);
  send(2 * kMillisecond, 2);
  bench.finish();
  EXPECT_THAT(numbers(), ElementsAre(2));
  EXPECT_THAT(dues(), ElementsAre(3 * kMillisecond));
}

TEST_F(WireOfAPort, TowardsAPortThatLosesItsDelayIsNotOvertaken) {
  port({.rx_delay_ns = 20 * kMillisecond}, 1);
  send(0, 1);
  bench.now = 5 * kMillisecond;
  port({}, 1);
  send(5 * kMillisecond, 2);
  bench.finish();
  EXPECT_THAT(numbers(), ElementsAre(1, 2));
  EXPECT_THAT(dues(), ElementsAre(20 * kMillisecond, 20 * kMillisecond));
  send(30 * kMillisecond, 3);
  EXPECT_EQ(numbers().size(), 3u) << "the delay is over";
}

TEST_F(WireOfAPort, WithoutARateOrWithAFairQueueIsDownToo) {
  for (const PortConfig& config :
       {PortConfig{.wire = {.up = false}},
        PortConfig{.rate_bps = 1e6, .fair_queueing = true, .wire = {.up = false}}}) {
    port(config);
    send(bench.now + kMillisecond);
  }
  EXPECT_EQ(stats().down_dropped_packets, 2u);
  bench.finish();
  EXPECT_THAT(numbers(), ElementsAre());
}

// The lost packet takes its service time all the same: a wire frees no place in the queue early.
TEST_F(WireOfAPort, ThatLosesFreesNoPlaceInTheQueue) {
  PortConfig config = link({.loss = {.in_good = 1}});
  config.queue_packets = 3;
  port(config);
  for (std::uint32_t i = 0; i < 10; ++i) send(0, i);
  EXPECT_EQ(stats().dropped_packets, 6u);
  bench.sw.advance(3'999'999);
  EXPECT_EQ(stats().lost_packets, 3u);
  bench.sw.advance(4 * kMillisecond);
  EXPECT_EQ(stats().lost_packets, 4u);
  EXPECT_EQ(label(), (LabelCounts{.entered = 10, .dropped = 6, .served = 4, .lost = 4}));
}

// netem: the copy comes with the packet itself; the share is that of the packets.
TEST_F(WireOfAPort, ThatDuplicatesSendsTheSameFrameTwice) {
  port(link({.duplicate = 1}));
  send(0, 1);
  send(0, 2);
  bench.finish();
  EXPECT_THAT(numbers(), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(dues(), ElementsAre(11 * kMillisecond, 11 * kMillisecond, 12 * kMillisecond,
                                  12 * kMillisecond));
  EXPECT_EQ(label(), (LabelCounts{.entered = 2, .served = 2, .duplicated = 2}));
  EXPECT_EQ(stats().tx_packets, 4u);
}

// netem's `delay 30ms reorder 75%`: 75 % are sent at once and overtake the others, which come 30 ms
// later. Here they are held for 30 ms more than the link's delay.
TEST_F(WireOfAPort, ThatReordersHoldsAShareForExactlyTheDelay) {
  constexpr int kSent = 20'000;
  port(link({.reorder = 0.25, .reorder_delay_ns = 30 * kMillisecond}));
  for (int i = 0; i < kSent; ++i) {
    send(i * 2 * kMillisecond, static_cast<std::uint32_t>(i));
    bench.sw.advance(bench.now + kMillisecond);
  }
  bench.finish();
  ASSERT_EQ(bench.out.sent.size(), static_cast<std::size_t>(kSent));
  int held = 0;
  for (const auto& one : bench.out.sent) {
    const auto sent = static_cast<std::int64_t>(number_at(one.frame, 30, 4)) * 2 * kMillisecond;
    const std::int64_t extra = one.due_ns - sent - 11 * kMillisecond;
    ASSERT_TRUE(extra == 0 || extra == 30 * kMillisecond) << extra;
    held += extra == 0 ? 0 : 1;
  }
  EXPECT_NEAR(held, kSent * 0.25, kDeviations * std::sqrt(kSent * 0.25 * 0.75));
  EXPECT_FALSE(std::is_sorted(numbers().begin(), numbers().end()));
}

// Packets far enough apart: the mean of a uniform time is half of its longest, its deviation that
// over sqrt(12).
TEST_F(WireOfAPort, ThatJittersDelaysUniformlyAndInOrder) {
  constexpr int kSent = 20'000;
  constexpr std::int64_t kJitter = 4 * kMillisecond;
  port(link({.jitter_ns = kJitter}));
  double total = 0;
  for (int i = 0; i < kSent; ++i) send(i * 5 * kMillisecond, static_cast<std::uint32_t>(i));
  bench.finish();
  const std::vector<std::int64_t> due = dues();
  ASSERT_EQ(due.size(), static_cast<std::size_t>(kSent));
  for (int i = 0; i < kSent; ++i) {
    const std::int64_t extra =
        due[static_cast<std::size_t>(i)] - i * 5 * kMillisecond - 11 * kMillisecond;
    ASSERT_TRUE(extra >= 0 && extra < kJitter) << extra;
    total += static_cast<double>(extra);
  }
  EXPECT_NEAR(total / kSent, kJitter / 2.0, kDeviations * kJitter / std::sqrt(12.0 * kSent));
  // Close together they would overtake each other.
  bench.out.sent.clear();
  for (int i = 0; i < 1000; ++i) send(bench.now, static_cast<std::uint32_t>(i));
  bench.finish();
  const std::vector<std::uint64_t> order = numbers();
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(WireOfAPort, TowardsAPortLosesAndDuplicatesBeforeIngress) {
  port({.rx_delay_ns = 5 * kMillisecond, .rx_wire = {.duplicate = 1}}, 1);
  send(0, 1);
  bench.finish();
  EXPECT_THAT(numbers(), ElementsAre(1, 1));
  EXPECT_THAT(dues(), ElementsAre(5 * kMillisecond, 5 * kMillisecond));
  EXPECT_EQ(stats(1).rx_duplicated_packets, 1u);
  bench.now = kMillisecond * 100;
  send(bench.now, 2);
  port({.rx_wire = {.up = false}}, 1);  // loses the two on their way
  send(bench.now, 3);
  bench.finish();
  EXPECT_EQ(stats(1).rx_lost_packets, 3u);
  EXPECT_EQ(stats(1).rx_packets, 3u);
  EXPECT_EQ(numbers().size(), 2u);
}

// Each port has its own random numbers, which follow from the switch's seed.
TEST(WireSeed, OfEveryPortIsItsOwn) {
  std::set<std::vector<std::uint64_t>> seen;
  for (const std::uint64_t seed : {1, 1, 2}) {
    for (const std::uint32_t number : {kOut, kOut + 1}) {
      Switch::Options options;
      options.seed = seed;
      Bench bench("probe", options);
      EXPECT_OK(bench.sw.set_port(number, {.wire = {.loss = {.in_good = 0.5}}}, 0));
      std::vector<std::uint64_t> arrived;
      for (std::uint32_t i = 0; i < 200; ++i) {
        Frame frame = numbered_probe(i);
        frame[0] = static_cast<std::byte>(number);
        bench.receive(1, frame);
      }
      for (const auto& one : bench.out.sent) arrived.push_back(number_at(one.frame, 30, 4));
      seen.insert(arrived);
    }
  }
  EXPECT_EQ(seen.size(), 4u) << "two seeds of two ports each; the same seed gives the same";
}

TEST(WireRange, IsChecked) {
  Bench bench("probe");
  const auto refused = [&](const WireConfig& wire) {
    return std::string(bench.sw.set_port(kOut, {.wire = wire}, 0).message());
  };
  EXPECT_THAT(refused({.loss = {.to_bad = 1.5}}), HasSubstr("loss.to_bad 1.5"));
  EXPECT_THAT(refused({.loss = {.in_good = -0.1}}), HasSubstr("loss.in_good -0.1"));
  EXPECT_THAT(refused({.duplicate = std::nan("")}), HasSubstr("duplicate nan"));
  EXPECT_THAT(refused({.jitter_ns = 60'000'000'001}), HasSubstr("valid: 0 to 60 s"));
  EXPECT_THAT(refused({.reorder_delay_ns = -1}), HasSubstr("reorder delay -1"));
  EXPECT_THAT(refused({.duplicate = 2}), HasSubstr("port 2: wire: duplicate 2"));
  EXPECT_THAT(bench.sw.set_port(1, {.rx_wire = {.duplicate = 2}}, 0).message(),
              HasSubstr("port 1: rx_wire: duplicate 2"));
}

}  // namespace
}  // namespace tiercast::engine
