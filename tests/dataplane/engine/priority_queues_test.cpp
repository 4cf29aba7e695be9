// Two queues by priority: the order of bmv2's priority queues, the lower queue's share, and what a
// program and the accounts are told.
#include <gmock/gmock.h>

#include <limits>
#include <map>
#include <random>

#include "dataplane/engine/control/trace.h"
#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {
namespace {

using ::testing::ElementsAre;

// priority.p4's frame.
struct Asked {
  std::uint32_t label = 0, priority = 0, port = kOut, group = 0, clone = 0, drop = 0;
  std::size_t bytes = 1000;
  Frame frame() const {
    return FrameBuilder()
        .put(label, 8)
        .put(priority, 8)
        .put(port, 8)
        .put(group, 8)
        .put(clone, 8)
        .put(drop, 8)
        .put(0, 64)
        .pad_to(bytes)
        .take();
  }
};

std::uint32_t same(std::uint64_t value) { return static_cast<std::uint32_t>(value); }

class TwoQueues : public ::testing::Test {
 protected:
  void port(const PortConfig& config) { EXPECT_OK(bench.sw.set_port(kOut, config, bench.now)); }
  void two(double low_share = 0) {
    port({.rate_bps = 8e6, .priority = PriorityConfig{low_share}});  // a byte each us
  }
  void send(const Asked& asked) { bench.receive(1, asked.frame()); }
  std::vector<unsigned> labels(std::uint32_t from = kOut) const {
    std::vector<unsigned> all;
    for (const auto& sent : bench.out.sent) {
      if (sent.port == from) all.push_back(static_cast<unsigned>(number_at(sent.frame, 0, 1)));
    }
    return all;
  }
  // Bytes that left, by the packets' priority.
  std::map<unsigned, double> bytes() const {
    std::map<unsigned, double> sums;
    for (const auto& sent : bench.out.sent) {
      sums[static_cast<unsigned>(number_at(sent.frame, 1, 1))] +=
          static_cast<double>(sent.frame.size());
    }
    return sums;
  }
  Bench bench{"priority", {.label = {"asked", "label", same}}};
};

// bmv2's QueueingLogicPriRL::pop_back(): "highest priority values are served first"; a packet in
// service is not interrupted.
TEST_F(TwoQueues, HigherPrioritiesAreServedFirst) {
  two();
  for (const unsigned label : {1, 2, 3}) send({.label = label});
  for (const unsigned label : {4, 5}) send({.label = label, .priority = 1});
  send({.label = 6});
  send({.label = 7, .priority = 1});
  bench.finish();
  EXPECT_THAT(labels(), ElementsAre(1, 4, 5, 7, 2, 3, 6));
}

TEST_F(TwoQueues, APortWithOneQueueKnowsNoPriority) {
  port({.rate_bps = 8e6});
  for (const unsigned label : {1, 2, 3, 4}) send({.label = label, .priority = label % 2 * 7});
  bench.finish();
  EXPECT_THAT(labels(), ElementsAre(1, 2, 3, 4));
}

// As bmv2's enq_qdepth and deq_qdepth, which are egress_buffers.size(port, priority).
TEST_F(TwoQueues, AProgramIsToldItsPacketsOwnQueue) {
  two();
  for (int i = 0; i < 4; ++i) send({.priority = 0});  // one in service, three wait
  for (int i = 0; i < 3; ++i) send({.priority = 1});
  bench.finish();
  std::vector<std::pair<unsigned, unsigned>> depths;
  for (const auto& sent : bench.out.sent) {
    depths.emplace_back(number_at(sent.frame, 6, 4), number_at(sent.frame, 10, 4));
  }
  using D = std::pair<unsigned, unsigned>;
  EXPECT_THAT(depths, ElementsAre(D{0, 0}, D{0, 2}, D{1, 1}, D{2, 0}, D{0, 2}, D{1, 1}, D{2, 0}));
}

// Both queues always hold packets, of any sizes. After each packet the shares are exact but for one
// packet of each queue.
TEST_F(TwoQueues, TheLowerQueueHasItsShareOfBytes) {
  for (const double share : {0.1, 0.25, 0.75}) {
    Bench one{"priority"};
    EXPECT_OK(one.sw.set_port(kOut, {.rate_bps = 8e6, .priority = PriorityConfig{share}}, 0));
    std::mt19937 random(7);
    std::uniform_int_distribution<std::size_t> size(100, 1500);
    for (int i = 0; i < 4000; ++i) {
      one.receive(
          1, Asked{.priority = static_cast<std::uint32_t>(i % 2), .bytes = size(random)}.frame());
    }
    one.sw.advance(1'000'000'000);  // 1000 of the 3200 kB: neither queue is empty yet
    double low = 0, all = 0;
    for (const auto& sent : one.out.sent) {
      const auto bytes = static_cast<double>(sent.frame.size());
      all += bytes;
      if (number_at(sent.frame, 1, 1) == 0) low += bytes;
      EXPECT_NEAR(low, share * all, 2 * 1500) << share;
    }
    EXPECT_GT(all, 990'000);
  }
}

TEST_F(TwoQueues, WithoutAShareTheLowerQueueStarves) {
  two();
  for (int i = 0; i < 200; ++i) send({.priority = static_cast<std::uint32_t>(i % 2)});
  bench.sw.advance(100 * kMillisecond);
  EXPECT_EQ(bytes()[0], 1000);  // it found the link idle
}

// Time in which the lower queue had nothing to send, or the link for itself, gives it no credit.
TEST_F(TwoQueues, CreditIsForTimeInWhichBothWait) {
  two(0.5);
  send({.label = 1, .priority = 1});
  for (unsigned i = 0; i < 50; ++i) send({.label = 2, .priority = 1});
  bench.now = 51 * kMillisecond - 1;
  bench.sw.advance(bench.now);
  bench.out.sent.clear();
  for (unsigned i = 0; i < 3; ++i) send({.label = 3, .priority = 0});
  for (unsigned i = 0; i < 3; ++i) send({.label = 4, .priority = 1});
  bench.finish();
  EXPECT_THAT(labels(), ElementsAre(2, 4, 3, 4, 3, 4, 3));
}

TEST_F(TwoQueues, TheLimitsApplyToBothTogether) {
  port({.rate_bps = 8e6, .queue_packets = 4, .priority = PriorityConfig{}});
  for (int i = 0; i < 5; ++i) send({.label = 1});
  send({.label = 2, .priority = 1});
  EXPECT_THAT(bench.sw.label_counts(kOut),
              ElementsAre(LabelCounts{1, 5, 0, 1}, LabelCounts{2, 1, 1, 0}));
  port({.rate_bps = 8e6, .queue_bytes = 4999, .priority = PriorityConfig{}});
  send({.label = 3, .priority = 1, .bytes = 999});
  send({.label = 4, .priority = 1, .bytes = 100});
  const PortStats stats = bench.sw.stats(kOut);
  EXPECT_EQ(stats.queue_packets, 5u);
  EXPECT_EQ(stats.queue_bytes, 4999u);
  EXPECT_EQ(stats.dropped_packets, 2u);
}

TEST_F(TwoQueues, ReplicasHaveThePriorityAndClonesHaveNone) {
  EXPECT_OK(bench.sw.insert_multicast_group(1, {{kOut, 1}, {3, 1}}));
  EXPECT_OK(bench.sw.insert_clone_session(5, {{{kOut, 0}}, 0}));
  two();
  send({.label = 1});
  send({.label = 2});
  send({.label = 3, .priority = 1, .group = 1});
  send({.label = 4, .priority = 1, .port = 3, .clone = 5});
  send({.label = 5, .priority = 1});
  bench.finish();
  EXPECT_THAT(labels(), ElementsAre(1, 3, 5, 2, 4));
}

TEST_F(TwoQueues, NewQueuesKeepWhatWaits) {
  two();
  for (const unsigned label : {1, 2, 3}) send({.label = label});
  for (const unsigned label : {4, 5}) send({.label = label, .priority = 1});
  port({.rate_bps = 8e6});  // in the order in which they would have left
  send({.label = 6, .priority = 1});
  bench.sw.advance(bench.now += 1500 * kMillisecond / 1000);
  EXPECT_EQ(bench.sw.stats(kOut).queue_packets, 4u);
  two(0.5);
  EXPECT_EQ(bench.sw.stats(kOut).queue_packets, 4u);
  bench.finish();
  EXPECT_THAT(labels(), ElementsAre(1, 4, 5, 2, 6, 3));
}

TEST_F(TwoQueues, ATracedPacketWaitsInTheSameQueue) {
  struct All : TraceSink {
    bool wants(std::uint32_t, std::span<const std::byte>) override { return true; }
    void event(const TraceEvent&) override {}
  } all;
  bench.sw.set_trace(&all);
  two();
  for (const unsigned label : {1, 2}) send({.label = label});
  send({.label = 3, .priority = 1});
  bench.finish();
  bench.sw.set_trace(nullptr);
  EXPECT_THAT(labels(), ElementsAre(1, 3, 2));
}

TEST_F(TwoQueues, SettingsThatAreNoneAreRefused) {
  for (const double share : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const Status status = bench.sw.set_port(kOut, {.priority = PriorityConfig{share}}, 0);
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.message(), ::testing::HasSubstr("valid: 0 or more, below 1"));
  }
  const Status both =
      bench.sw.set_port(kOut, {.fair_queueing = true, .priority = PriorityConfig{}}, 0);
  EXPECT_THAT(both.message(), ::testing::HasSubstr("valid: one of them"));
}

// Random traffic through links whose queues change: at every instant, by label, entered = dropped +
// served + waiting, and the port waits for what its labels do.
TEST_F(TwoQueues, BalanceAtAnyInstant) {
  std::mt19937 random(20261124);
  const auto below = [&](std::uint32_t bound) {
    return static_cast<std::uint32_t>(random() % bound);
  };
  std::map<std::uint32_t, std::uint64_t> entered;
  const auto change = [&] {
    PortConfig config{.rate_bps = below(8) == 0 ? 0 : 1e6 * (1 + below(20)),
                      .queue_packets = below(12),
                      .queue_bytes = below(3) == 0 ? 5000u : 0u,
                      .delay_ns = below(5) * kMillisecond};
    if (below(4) != 0) config.priority = PriorityConfig{below(4) * 0.2};
    config.wire.up = below(10) != 0;
    port(config);
  };
  change();
  for (int i = 0; i < 20'000; ++i) {
    bench.sw.advance(bench.now += below(2) * kMillisecond);
    if (below(50) == 0) change();
    const std::uint32_t label = below(6);
    send({.label = label,
          .priority = below(3),
          .drop = below(5) == 0 ? 1u : 0u,
          .bytes = 100 + below(1400)});
    ++entered[label];
    std::uint64_t waiting = 0;
    for (const LabelCounts& of : bench.sw.label_counts(kOut)) {
      ASSERT_EQ(of.entered, entered[of.label]) << i;
      ASSERT_LE(of.dropped + of.down_dropped + of.served, of.entered) << i;
      waiting += of.waiting();
    }
    ASSERT_EQ(waiting, bench.sw.stats(kOut).queue_packets) << i;
  }
  bench.finish();
  std::uint64_t served = 0, lost = 0;
  for (const LabelCounts& of : bench.sw.label_counts(kOut)) {
    EXPECT_EQ(of.waiting(), 0u);
    served += of.served;
    lost += of.lost;
  }
  const PortStats stats = bench.sw.stats(kOut);
  EXPECT_EQ(stats.queue_bytes, 0u);
  EXPECT_EQ(served, stats.tx_packets + stats.egress_dropped_packets + lost);
}

}  // namespace
}  // namespace tiercast::engine
