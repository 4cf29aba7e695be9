// What enters a port's queue, by label: a packet is dropped, waits, or has had its turn.
#include <gmock/gmock.h>

#include <map>
#include <random>

#include "dataplane/engine/control/trace.h"
#include "dataplane/engine/queues/label_table.h"
#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {

void PrintTo(const LabelCounts& c, std::ostream* out) {
  *out << "{label " << c.label << ": entered " << c.entered << ", dropped " << c.dropped
       << ", served " << c.served << ", not sent " << c.not_sent << "}";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::uint32_t same(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
const Switch::Options kByLabel{.label = {"label", "label", same}};

// labels.p4's header. order: 1 drop in egress, 2 resubmit, 3 recirculate, 4 clone in egress.
struct Labelled {
  unsigned label = 0;
  unsigned change = 0;
  unsigned port = 2;
  unsigned group = 0;
  unsigned clone = 0;
  unsigned order = 0;
  std::size_t bytes = 1000;
  Frame frame() const {
    FrameBuilder made;
    for (const unsigned value : {label, change, port, group, clone, order}) made.put(value, 8);
    return made.pad_to(bytes).take();
  }
};
constexpr unsigned kDrop = 1, kResubmit = 2, kRecirculate = 3, kClone = 4;

LabelCounts not_sent(std::uint64_t packets, LabelCounts of) {
  of.not_sent = packets;
  return of;
}

class Labels : public ::testing::Test {
 protected:
  void port(const PortConfig& config, std::uint32_t number = 2) {
    EXPECT_OK(bench.sw.set_port(number, config, bench.now));
  }
  void send(const Labelled& packet) { bench.receive(1, packet.frame()); }
  void send(unsigned label, int count = 1, unsigned order = 0) {
    for (int i = 0; i < count; ++i) send(Labelled{.label = label, .order = order});
  }
  void advance(std::int64_t to) { bench.sw.advance(bench.now = to); }
  std::vector<LabelCounts> counts(std::uint32_t number = 2) const {
    return bench.sw.label_counts(number);
  }
  Bench bench{"labels", kByLabel};
};

TEST_F(Labels, ServedAtOnceOnAnIdleLink) {
  send(5);
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{5, 1, 0, 1}));
  EXPECT_THAT(counts(1), IsEmpty());
  EXPECT_THAT(bench.sw.label_counts(600), IsEmpty());
}

TEST_F(Labels, DropTail) {
  port({.rate_bps = 8e6, .queue_packets = 3});
  send(7, 2);  // one in service, one waiting
  send(3, 4);  // two waiting, and the queue is full
  send(9);
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{3, 4, 2, 0}, LabelCounts{7, 2, 0, 1},
                                    LabelCounts{9, 1, 1, 0}));
  advance(kMillisecond);
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{3, 4, 2, 0}, LabelCounts{7, 2, 0, 2},
                                    LabelCounts{9, 1, 1, 0}));
  advance(4 * kMillisecond);
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{3, 4, 2, 2}, LabelCounts{7, 2, 0, 2},
                                    LabelCounts{9, 1, 1, 0}));
  EXPECT_EQ(bench.out.sent.size(), 4u);
}

TEST_F(Labels, BytesLimitTheQueueToo) {
  port({.rate_bps = 8e6, .queue_bytes = 1999});
  send(1, 3);
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{1, 3, 1, 1}));
}

TEST_F(Labels, AFairQueuesLimitIsEachFlows) {
  // All of these frames are one flow, because they are not IPv4.
  port({.rate_bps = 8e6, .queue_packets = 2, .fair_queueing = true});
  send(1, 2);
  send(2, 3);
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{1, 2, 0, 1}, LabelCounts{2, 3, 2, 0}));
  bench.finish();
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{1, 2, 0, 2}, LabelCounts{2, 3, 2, 1}));
}

TEST_F(Labels, WhatTheProgramDropsWasServed) {
  port({.rate_bps = 8e6});
  send(1, 3, kDrop);
  send(2, 2);
  bench.finish();
  EXPECT_THAT(counts(), ElementsAre(not_sent(3, {1, 3, 0, 3}), LabelCounts{2, 2, 0, 2}));
  EXPECT_EQ(bench.out.sent.size(), 2u);
}

TEST_F(Labels, ANewRateLimitOrSchedulingLosesNothing) {
  port({.rate_bps = 8e6, .queue_packets = 10});
  send(1, 5);
  send(2, 5);
  const auto waiting = ElementsAre(LabelCounts{1, 5, 0, 1}, LabelCounts{2, 5, 0, 0});
  EXPECT_THAT(counts(), waiting);
  for (const PortConfig& config :
       {PortConfig{.rate_bps = 4e6, .queue_packets = 10},
        PortConfig{.rate_bps = 4e6, .queue_packets = 1},
        PortConfig{.rate_bps = 4e6, .queue_packets = 1, .fair_queueing = true},
        PortConfig{.rate_bps = 4e6, .queue_packets = 1}}) {
    port(config);
    EXPECT_THAT(counts(), waiting);
  }
  send(2);
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{1, 5, 0, 1}, LabelCounts{2, 6, 1, 0}));
  bench.finish();
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{1, 5, 0, 5}, LabelCounts{2, 6, 1, 5}));
}

TEST_F(Labels, ARemovedPortDropsWhatWaits) {
  port({.rate_bps = 8e6});
  send(1, 2);
  send(2, 3);
  EXPECT_OK(bench.sw.remove_port(2));
  const auto dropped = ElementsAre(LabelCounts{1, 2, 1, 1}, LabelCounts{2, 3, 3, 0});
  EXPECT_THAT(counts(), dropped);
  send(1);  // there is no port to enter
  EXPECT_THAT(counts(), dropped);
  port({.rate_bps = 8e6, .fair_queueing = true});
  send(1, 2);
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{1, 4, 1, 2}, LabelCounts{2, 3, 3, 0}));
  EXPECT_OK(bench.sw.remove_port(2));
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{1, 4, 2, 2}, LabelCounts{2, 3, 3, 0}));
}

TEST_F(Labels, ANewProgramBeginsAnew) {
  port({.rate_bps = 8e6});
  send(1, 3);
  bench.sw.set_program(load_program("labels"));
  EXPECT_THAT(counts(), IsEmpty());
  send(2);
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{2, 1, 0, 1}));
}

TEST_F(Labels, EachReplicaIsCountedAtItsPort) {
  port({.rate_bps = 8e6, .queue_packets = 1});
  EXPECT_OK(bench.sw.insert_multicast_group(1, {{2, 1}, {3, 1}, {3, 2}}));
  EXPECT_OK(bench.sw.insert_multicast_group(2, {{2, 1}}));
  for (int i = 0; i < 3; ++i) send({.label = 1, .group = 1});
  send({.label = 2, .group = 2});
  EXPECT_THAT(counts(2), ElementsAre(LabelCounts{1, 3, 1, 1}, LabelCounts{2, 1, 1, 0}));
  EXPECT_THAT(counts(3), ElementsAre(LabelCounts{1, 6, 0, 6}));
}

TEST_F(Labels, ACloneOfIngressIsThePacketAsItCame) {
  EXPECT_OK(bench.sw.insert_clone_session(5, {{{6, 0}, {7, 0}}, 100}));
  send({.label = 8, .change = 9, .clone = 5});
  EXPECT_THAT(counts(2), ElementsAre(LabelCounts{9, 1, 0, 1}));
  EXPECT_THAT(counts(6), ElementsAre(LabelCounts{8, 1, 0, 1}));
  EXPECT_THAT(counts(7), ElementsAre(LabelCounts{8, 1, 0, 1}));
}

TEST_F(Labels, ACloneOfEgressEntersAQueueToo) {
  port({.rate_bps = 8e6, .queue_packets = 1});
  EXPECT_OK(bench.sw.insert_clone_session(7, {{{3, 0}, {2, 0}}, 100}));
  send({.label = 8, .order = kClone});
  // The clone to port 2 finds its link busy with the original.
  EXPECT_THAT(counts(2), ElementsAre(LabelCounts{8, 2, 0, 1}));
  EXPECT_THAT(counts(3), ElementsAre(LabelCounts{8, 1, 0, 1}));
  bench.finish();
  EXPECT_THAT(counts(2), ElementsAre(LabelCounts{8, 2, 0, 2}));
}

TEST_F(Labels, AResubmittedPacketEntersOnceAndARecirculatedOneAgain) {
  send({.label = 1, .order = kResubmit});
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{1, 1, 0, 1}));
  send({.label = 2, .order = kRecirculate});
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{1, 1, 0, 1}, not_sent(1, {2, 2, 0, 2})));
  EXPECT_EQ(bench.out.sent.size(), 2u);
}

TEST_F(Labels, TheLabelIsWhatIngressMadeOfIt) {
  send({.label = 1, .change = 2});
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{2, 1, 0, 1}));
}

TEST_F(Labels, WithoutTheHeaderItIs0) {
  bench.receive(1, Frame(3));
  EXPECT_THAT(counts(0), IsEmpty());  // no port 0
  EXPECT_OK(bench.sw.set_port(0, {}));
  bench.receive(1, Frame(3));
  EXPECT_THAT(counts(0), ElementsAre(LabelCounts{0, 1, 0, 1}));
}

TEST_F(Labels, FromTheCpuPortItIs0) {
  bench.receive(510, Labelled{.label = 4}.frame());
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{0, 1, 0, 1}));
}

// Flat code and traced packets see the same field.
TEST_F(Labels, ATracedPacketHasTheSame) {
  struct All : TraceSink {
    bool wants(std::uint32_t, std::span<const std::byte>) override { return true; }
    void event(const TraceEvent&) override {}
  } all;
  bench.sw.set_trace(&all);
  send({.label = 1, .change = 2});
  bench.sw.set_trace(nullptr);
  EXPECT_THAT(counts(), ElementsAre(LabelCounts{2, 1, 0, 1}));
}

TEST(LabelsOff, AllPacketsHaveLabel0) {
  // No rule; no such header; no such field; one that egress does not read.
  for (const LabelRule& rule : {LabelRule{}, LabelRule{"probe", "label", same},
                                LabelRule{"label", "x", same}, LabelRule{"label", "group", same}}) {
    Bench bench{"labels", {.label = rule}};
    bench.receive(1, Labelled{.label = 4}.frame());
    bench.receive(1, Labelled{.label = 5}.frame());
    EXPECT_THAT(bench.sw.label_counts(2), ElementsAre(LabelCounts{0, 2, 0, 2}));
  }
}

TEST(LabelTable, CountsAsAMapDoes) {
  std::mt19937 random(20261122);
  LabelTable table;
  std::map<std::uint32_t, LabelCounts> wanted;
  for (int i = 0; i < 200'000; ++i) {
    // Few labels; groups of eight in a row, far apart; or any number.
    const auto kind = random() % 3;
    const auto label =
        static_cast<std::uint32_t>(kind == 0   ? random() % 10
                                   : kind == 1 ? random() % 4096 * 65'536 + random() % 8
                                               : random());
    for (LabelCounts* counts : {&table.of(label), &wanted[label]}) {
      counts->label = label;
      ++counts->entered;
      counts->dropped += i % 2;
      counts->served += i % 3;
    }
  }
  std::vector<LabelCounts> all;
  for (const auto& [label, counts] : wanted) all.push_back(counts);
  EXPECT_EQ(table.all(), all);
}

// Random traffic through random links. At every instant the queue holds what the labels' counts
// say, and the counts match what the test handed in and got out.
TEST_F(Labels, BalanceAtAnyInstant) {
  std::mt19937 random(20261122);
  const auto below = [&](std::uint32_t bound) {
    return static_cast<std::uint32_t>(random() % bound);
  };
  std::map<std::uint32_t, std::uint64_t> entered;
  std::uint64_t dropped_in_egress = 0;
  const auto change = [&] {
    port({.rate_bps = below(8) == 0 ? 0 : 1e6 * (1 + below(20)),
          .queue_packets = below(12),
          .queue_bytes = below(3) == 0 ? 5000u : 0u,
          .delay_ns = below(5) * kMillisecond,
          .fair_queueing = below(2) == 0});
  };
  change();
  for (int i = 0; i < 20'000; ++i) {
    advance(bench.now + below(2) * kMillisecond);
    if (below(50) == 0) change();
    const std::uint32_t label = below(6);
    send({.label = label, .order = below(5) == 0 ? kDrop : 0, .bytes = 100 + below(1400)});
    ++entered[label];
    std::uint64_t waiting = 0, dropped = 0, served = 0;
    for (const LabelCounts& of : counts()) {
      ASSERT_EQ(of.entered, entered[of.label]) << i;
      ASSERT_LE(of.dropped + of.served, of.entered) << i;
      waiting += of.waiting();
      dropped += of.dropped;
      served += of.served;
    }
    const PortStats stats = bench.sw.stats(2);
    ASSERT_EQ(waiting, stats.queue_packets) << i;
    ASSERT_EQ(dropped, stats.dropped_packets) << i;
    dropped_in_egress = stats.egress_dropped_packets;
    ASSERT_GE(served, stats.tx_packets + dropped_in_egress) << i;
  }
  bench.finish();
  std::uint64_t served = 0, dropped = 0;
  for (const LabelCounts& of : counts()) {
    EXPECT_EQ(of.waiting(), 0u);
    served += of.served;
    dropped += of.dropped;
  }
  dropped_in_egress = bench.sw.stats(2).egress_dropped_packets;
  EXPECT_EQ(served, bench.out.sent.size() + dropped_in_egress);
  EXPECT_GT(dropped, 1000u);
  EXPECT_GT(dropped_in_egress, 1000u);
}

}  // namespace
}  // namespace tiercast::engine
