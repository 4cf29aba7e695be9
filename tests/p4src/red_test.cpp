// RED and RED/ECN: the average, the law of marks, and what happens to the packet.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/p4src/queue_model.h"
#include "tests/p4src/red_model.h"

namespace tiercast::p4test {
namespace {

constexpr double kUnit = 1 << 18;  // of red_average

class RedTest : public SwitchTest {
 protected:
  RedTest() {
    bench.limit(kPort, 8e6, 0);  // a packet of 1000 bytes takes a millisecond
    bench.host("10.0.1.2", kPort, 0x020000000202);
  }

  Packet packet(std::uint8_t ecn = kEct0) {
    Packet out;
    out.ecn = ecn;
    out.payload.resize(980);
    out.identification = next_id++;
    return out;
  }

  // Sends `count` packets, each judged with this average. Returns what became of them: 'm'arked,
  // 'd'ropped, '-'. Each comes behind one on the link and `waiting` more, and departs with the
  // given average. The packets before it find fewer waiting, so they must not affect the spacing of
  // marks.
  std::string depart(double average, std::size_t count, std::uint8_t ecn = kEct0,
                     unsigned waiting = 2) {
    const double before = (average - waiting * kRedWeight) / (1 - kRedWeight);
    const auto cell = static_cast<std::uint32_t>(std::lround(before * kUnit));
    std::string fates;
    std::uint64_t until_mark = 0;
    for (std::size_t i = 0; i < count; ++i) {
      bench.set_cell("red_average", kPort, 0);
      for (unsigned n = 0; n <= waiting; ++n) bench.receive(1, packet());
      bench.receive(1, packet(ecn));
      bench.advance((waiting + 1) * kMillisecond - 1);
      // The average was below min_th until now, so that the count starts again at the first packet.
      if (i > 0) bench.set_cell("red_until_mark", kPort, static_cast<std::uint32_t>(until_mark));
      const EgressFates earlier = bench.egress(kPort);
      bench.set_cell("red_average", kPort, cell);
      bench.advance(1);
      const EgressFates now = bench.egress(kPort);
      fates.push_back(now.marked > earlier.marked     ? 'm'
                      : now.dropped > earlier.dropped ? 'd'
                                                      : '-');
      until_mark = bench.cell("red_until_mark", kPort);
      bench.finish();
      bench.clear();
    }
    return fates;
  }

  std::uint16_t next_id = 0;
};

std::vector<int> spacings(const std::string& fates, char what) {
  std::vector<int> out;
  int since = 0;
  bool first = true;
  for (char fate : fates) {
    ++since;
    if (fate != what) continue;
    if (!first) out.push_back(since);
    first = false;
    since = 0;
  }
  return out;
}

// The mean distance of marks at averages over the whole range. The tolerance is four deviations of
// the mean of this many distances, plus the error of fixed point: p_b is off by up to 1/256 packet
// on the slope, and a mark comes when a sum exceeds a 16-bit random number.
void expect_law(const RedParameters& r, double average, const std::vector<int>& distances,
                double packets) {
  const double p_b = red_p_b(r, average);
  ASSERT_GT(p_b, 0);
  const Spacing law = red_spacing(r, p_b);
  const double slope =
      r.max_p / (r.max_th - r.min_th) + (average >= r.max_th ? (1 - r.max_p) / r.max_th : 0);
  const double relative = slope / 256 / p_b + 1 / 65536.0 / p_b;
  const double n = std::max<double>(1, static_cast<double>(distances.size()));
  double sum = 0;
  for (int d : distances) sum += d;
  if (law.mean * 20 > packets) return;  // too few packets to tell
  EXPECT_NEAR(sum / n, law.mean, 4 * law.deviation / std::sqrt(n) + relative * law.mean + 1e-9)
      << "average " << average << ", p_b " << p_b << ", marks " << distances.size();
}

class Law : public RedTest, public ::testing::WithParamInterface<RedParameters> {};

TEST_P(Law, MarkRatioFollowsTheAverageOverTheWholeRange) {
  const RedParameters r = GetParam();
  bench.red(kPort, r);
  constexpr std::size_t kPackets = 4000;
  for (double average = 0.5; average < 2 * r.max_th + 2; average += r.max_th / 24) {
    const std::string fates = depart(average, kPackets);
    const auto marks = static_cast<std::size_t>(std::count(fates.begin(), fates.end(), 'm'));
    const auto drops = static_cast<std::size_t>(std::count(fates.begin(), fates.end(), 'd'));
    if (average < r.min_th) {
      EXPECT_EQ(marks + drops, 0u) << average;
    } else if (red_p_b(r, average) < 1) {
      EXPECT_EQ(r.ecn ? drops : marks, 0u) << average;
      expect_law(r, average, spacings(fates, r.ecn ? 'm' : 'd'), kPackets);
    } else {
      EXPECT_EQ(r.ecn && r.mark_above_max ? marks : drops, kPackets) << average;
    }
  }
}

RedParameters with(bool gentle, bool ecn, bool wait, bool above, double min, double max, double p) {
  RedParameters r;
  r.gentle = gentle;
  r.ecn = ecn;
  r.wait = wait;
  r.mark_above_max = above;
  r.min_th = min;
  r.max_th = max;
  r.max_p = p;
  return r;
}

INSTANTIATE_TEST_SUITE_P(Settings, Law,
                         ::testing::Values(with(false, true, false, false, 5, 15, 0.1),
                                           with(true, true, false, true, 5, 15, 0.1),
                                           with(false, true, true, false, 5, 15, 0.1),  // ns-2
                                           with(false, false, false, false, 5, 15, 0.02),
                                           with(true, false, false, false, 2, 60, 0.5),
                                           with(false, true, false, true, 100, 200, 0.9)));

// p_b = 0.05: every distance from 1 to 20 is equally frequent.
TEST_F(RedTest, DistancesOfMarksAreUniform) {
  RedParameters r;
  for (const bool wait : {false, true}) {
    r.wait = wait;
    bench.red(kPort, r);
    const std::vector<int> d = spacings(depart(10, 40'000), 'm');
    const int least = wait ? 21 : 1, most = wait ? 40 : 20;
    EXPECT_EQ(*std::min_element(d.begin(), d.end()), least);
    EXPECT_LE(*std::max_element(d.begin(), d.end()), most + 1) << "p_b is rounded down";
    double chi = 0;
    const double expected = static_cast<double>(d.size()) / 20;
    for (int n = least; n <= most; ++n) {
      const double seen = static_cast<double>(std::count(d.begin(), d.end(), n));
      chi += (seen - expected) * (seen - expected) / expected;
    }
    EXPECT_LT(chi, 43.8) << "19 degrees of freedom: above this in 1 of 1000 cases";
  }
}

TEST_F(RedTest, PacketsThatAreNotEctAreDroppedWhereOthersAreMarked) {
  bench.red(kPort, {});
  const std::string dropped = depart(14, 3000, kNotEct), marked = depart(14, 3000, kEct1);
  EXPECT_EQ(std::count(dropped.begin(), dropped.end(), 'm'), 0);
  EXPECT_EQ(std::count(marked.begin(), marked.end(), 'd'), 0);
  for (const std::string* fates : {&dropped, &marked}) {
    const auto hits = 3000 - std::count(fates->begin(), fates->end(), '-');
    EXPECT_NEAR(static_cast<double>(hits) / 3000, 1 / red_spacing({}, 0.09).mean, 0.02);
  }
}

TEST_F(RedTest, AMarkedPacketIsOtherwiseAsItWas) {
  RedParameters r;
  r.mark_above_max = true;
  bench.red(kPort, r);
  for (int i = 0; i < 3; ++i)
    bench.receive(1, packet());  // the second finds two waiting, the
                                 // third finds three
  const Packet fourth = packet(kEct1), fifth = packet(kCe);
  bench.receive(1, fourth);
  bench.receive(1, fifth);
  bench.set_cell("red_average", kPort, 20u << 18);
  bench.finish();
  ASSERT_EQ(bench.sent_on(kPort).size(), 5u);
  for (std::size_t i : {3u, 4u}) {
    const Frame frame = bench.sent_on(kPort)[i];
    EXPECT_EQ(ecn(frame), kCe);
    EXPECT_TRUE(checksum_right(frame));
    EXPECT_EQ(ip_payload(frame), (i == 3 ? fourth : fifth).payload);
  }
  const auto sent = bench.sent_on(kPort);
  const auto ce =
      std::count_if(sent.begin(), sent.end(), [](const Frame& f) { return ecn(f) == kCe; });
  EXPECT_EQ(bench.egress(kPort).marked, static_cast<std::uint64_t>(ce) - 1) << "one came with CE";
}

TEST_F(RedTest, OnArrivalCountsWhatItMarked) {
  engine::Switch& sw = bench.engine_switch();
  engine::PortConfig config = sw.port_config(kPort).value();
  config.red = engine::RedConfig{
      .min_th = 1, .max_th = 2, .weight = 1, .wait = false, .ecn = true, .mark_above_max = true};
  ASSERT_TRUE(sw.set_port(kPort, config, bench.now()).ok());
  for (int i = 0; i < 10; ++i) bench.receive(1, packet(kEct0));
  for (int i = 0; i < 5; ++i) bench.receive(1, packet(kCe));
  bench.finish();
  const auto sent = bench.sent_on(kPort);
  ASSERT_EQ(sent.size(), 15u);
  const auto ce =
      std::count_if(sent.begin(), sent.end(), [](const Frame& f) { return ecn(f) == kCe; });
  EXPECT_GT(ce, 10);
  EXPECT_EQ(sw.stats(kPort).marked_packets, static_cast<std::uint64_t>(ce) - 5)
      << "that came with CE";
}

TEST_F(RedTest, ADroppedPacketTakesNoTimeOnTheLink) {
  RedParameters r;
  r.mean_packet = 1000;  // 1 ms each
  bench.red(kPort, r);
  for (int i = 0; i < 6; ++i) bench.receive(1, packet(i == 5 ? kEct0 : kNotEct));
  bench.advance(3 * kMillisecond - 1);  // three have departed; they found none or one waiting
  bench.set_cell("red_average", kPort, 16u << 18);
  EXPECT_EQ(bench.egress(kPort).dropped, 0u);
  bench.advance(1);
  EXPECT_EQ(bench.egress(kPort).dropped, 3u) << "ECT packets too, above max_th";
  EXPECT_EQ(bench.sent_on(kPort).size(), 3u);
  EXPECT_EQ(bench.egress(kPort).left, 3u);
  // The link is idle from now on.
  bench.set_cell("red_average", kPort, 4u << 18);
  bench.advance(10 * kMillisecond + 500 * kMicrosecond);
  bench.receive(1, packet());
  EXPECT_NEAR(static_cast<double>(bench.cell("red_average", kPort)) / kUnit,
              4 * std::pow(1 - kRedWeight, 10 + 1), 0.002);
}

// ns-2's `qlen > 1`, where qlen includes neither the packet on the link nor the arriving one.
TEST_F(RedTest, WhoFindsFewerThanTwoWaitingIsSpared) {
  RedParameters r;
  r.mark_above_max = true;
  bench.red(kPort, r);
  for (const double average : {14.9, 16.0}) {
    for (const unsigned waiting : {0u, 1u}) {
      EXPECT_EQ(depart(average, 100, kNotEct, waiting), std::string(100, '-'));
      EXPECT_EQ(depart(average, 100, kEct0, waiting), std::string(100, '-'));
    }
  }
  EXPECT_EQ(depart(16, 100, kNotEct), std::string(100, 'd'));
  EXPECT_EQ(depart(16, 100, kEct0), std::string(100, 'm'));
  r.limit = 1;
  bench.red(kPort, r);
  EXPECT_EQ(depart(0.5, 100, kNotEct, 1), std::string(100, 'd')) << "a full queue drops anyway";
}

TEST_F(RedTest, AFullQueueDrops) {
  RedParameters r;
  r.limit = 4;
  bench.red(kPort, r);
  std::vector<std::uint16_t> out;
  for (int i = 0; i < 10; ++i) bench.receive(1, packet());
  bench.finish();
  for (const Frame& frame : bench.sent_on(kPort)) out.push_back(identification(frame));
  EXPECT_EQ(out, (std::vector<std::uint16_t>{0, 1, 2, 3, 4})) << "those that found 0 to 3 waiting";
}

// Bursts with pauses in between, compared with the average in real numbers. As in ns-2, it counts
// the packets that an idle link could have sent, and then the arriving one.
TEST_F(RedTest, AverageFollowsItsDefinition) {
  constexpr unsigned kSeed = 51;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  RedParameters r;
  r.min_th = 1000;  // only the average is of interest
  r.max_th = 2000;
  bench.red(kPort, r);
  double average = 0, largest = 0, worst = 0;
  std::int64_t link_free_ns = 0;
  std::vector<std::int64_t> ends;  // when the packets on the link or waiting will have been sent
  for (int burst = 0; burst < 400; ++burst) {
    bench.advance(static_cast<std::int64_t>(random() % 60'000) * kMicrosecond +
                  (random() % 20 == 0 ? 300 * kMillisecond : 0));
    for (unsigned i = 0, n = 1 + draw(random, 60); i < n; ++i) {
      bench.advance(static_cast<std::int64_t>(random() % 800) * kMicrosecond);
      const std::int64_t now = bench.now();
      std::erase_if(ends, [&](std::int64_t end) { return end <= now; });
      const double waiting = ends.empty() ? 0 : static_cast<double>(ends.size() - 1);
      if (ends.empty()) {
        const double idle_us = static_cast<double>(now - link_free_ns) / 1000;
        average *= std::pow(1 - kRedWeight, std::floor(idle_us * r.link_bps / 8 / 500 / 1e6));
      }
      average += (waiting - average) * kRedWeight;
      largest = std::max(largest, average);
      link_free_ns = std::max(now, link_free_ns) + 1000 * kNsPerByte;
      ends.push_back(link_free_ns);
      bench.receive(1, packet());
      if (ends.size() == 1) {  // it has departed, so the register belongs to this packet
        const double seen = static_cast<double>(bench.cell("red_average", kPort)) / kUnit;
        worst = std::max(worst, std::abs(seen - average) / std::max(average, 0.05));
      }
    }
    bench.clear();
  }
  EXPECT_GT(largest, 2) << "the traffic is to build queues";
  EXPECT_LT(worst, 0.04);
}

// Every idle time up to its limit, within the bound given in lib/red_idle_decay.p4.
TEST_F(RedTest, IdleDecayIsWithinItsBound) {
  RedParameters r;
  r.mean_packet = 1000;  // 1 ms each
  bench.red(kPort, r);
  for (int m = 0; m < 4096; m += m < 80 ? 1 : 37) {
    bench.advance(10 * kMillisecond);
    bench.receive(1, packet());
    bench.set_cell("red_average", kPort, 40u << 18);
    bench.advance(kMillisecond + m * kMillisecond + 500 * kMicrosecond);
    bench.receive(1, packet());
    bench.clear();
    const double seen = static_cast<double>(bench.cell("red_average", kPort)) / kUnit;
    const double exact = 40 * std::pow(1 - kRedWeight, m + 1);
    const int octave = m < 64 ? 0 : static_cast<int>(std::log2(m));
    const double bound = m < 64 ? 2e-4 : std::ldexp(1.0, octave - 15) + 1e-3;
    // The last factors are small numbers of 16 bits.
    EXPECT_NEAR(seen, exact, bound * exact + 40 / 65536.0) << m << " packet times";
  }
  bench.advance(5000 * kMillisecond);
  bench.set_cell("red_average", kPort, 40u << 18);
  bench.receive(1, packet());
  EXPECT_EQ(bench.cell("red_average", kPort), 0u) << "past the limit";
}

TEST_F(RedTest, AvgQueueShowsTheAverage) {
  bench.red(kPort, {});
  depart(12.5, 3);
  bench.receive(1, packet());
  bench.receive(1, packet());
  bench.set_cell("red_average", kPort, (12u << 18) + (1u << 17));
  bench.finish();
  EXPECT_EQ(bench.avg_queue(kPort), bench.cell("red_average", kPort) >> 10);
  EXPECT_NEAR(bench.avg_queue(kPort) / 256.0, 12.5 * (1 - kRedWeight), 0.02);
}

}  // namespace
}  // namespace tiercast::p4test
