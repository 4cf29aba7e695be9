// Rows about sampled packets: what became of them, their figures, and the lines that decided.
#include "dataplane/trace/hop_trace.h"

#include <gmock/gmock.h>

#include "tests/p4src/bench.h"

namespace tiercast::trace {
namespace {

using namespace p4test;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::uint32_t kIn = 1, kPort = 2, kOther = 3;
constexpr std::size_t kMany = 1 << 20;
constexpr std::int64_t kService = kMillisecond;  // of 1000 bytes at 8 Mbit/s

class HopTraceTest : public SwitchTest {
 protected:
  HopTraceTest() {
    bench.host("10.0.1.2", kPort, 0x020000000202);
    bench.host("10.0.2.2", kOther, 0x020000000302);
    bench.limit(kPort, 8e6, 100);
  }

  void trace(TracedPort port = {}, std::size_t most_held = kMany) {
    sink.emplace(std::map<std::uint32_t, TracedPort>{{kPort, std::move(port)}}, most_held);
    bench.engine_switch().set_trace(&*sink);
  }

  void send(int packets, std::uint8_t ecn = kEct0, std::string_view to = "10.0.1.2") {
    for (int i = 0; i < packets; ++i) {
      Packet packet;
      packet.dst = address(to);
      packet.ecn = ecn;
      packet.identification = next_++;
      packet.payload = udp(9, Frame(972));
      bench.receive(kIn, packet);
    }
  }

  std::vector<Hop> finish() {
    bench.finish();
    return sink->take();
  }

  static std::size_t with(const std::vector<Hop>& hops, std::string_view fate) {
    return static_cast<std::size_t>(
        std::count_if(hops.begin(), hops.end(), [&](const Hop& hop) { return hop.fate == fate; }));
  }

  std::optional<HopTrace> sink;
  std::uint16_t next_ = 0;
};

TEST_F(HopTraceTest, AThresholdSaysWhatItCompared) {
  bench.threshold_marking(kPort, 2);
  trace();
  send(5);
  const std::vector<Hop> hops = finish();
  ASSERT_THAT(hops, SizeIs(5));
  for (std::size_t i = 0; i < hops.size(); ++i) {
    SCOPED_TRACE(i);
    const Hop& hop = hops[i];
    // The first is in service; the others find one less than came before.
    EXPECT_EQ(hop.found_packets, i == 0 ? 0 : i - 1);
    EXPECT_EQ(hop.found_bytes, 1000 * hop.found_packets);
    EXPECT_EQ(hop.left_packets, i == 0 ? 0 : 4 - i);  // the first was served at once
    EXPECT_EQ(hop.wait_ns, static_cast<std::int64_t>(i) * kService);
    EXPECT_EQ(hop.transit_ns, static_cast<std::int64_t>(i + 1) * kService);
    EXPECT_EQ(hop.packet.ip_id, i);
    const bool marked = hop.found_packets > 2;
    EXPECT_EQ(hop.fate, marked ? "marked" : "passed");
    EXPECT_EQ(hop.by.empty(), !marked);
    EXPECT_THAT(hop.lines,
                Contains(AllOf(HasSubstr("port_marking: egress_port 2 -> threshold_marking("
                                         "threshold 2)"))));
    EXPECT_THAT(hop.lines,
                Contains(AllOf(HasSubstr("queue.enq_depth > threshold"),
                               HasSubstr(marked ? ": yes" : ": no"),
                               HasSubstr("enq_qdepth " + std::to_string(hop.found_packets)))));
    // Neither where the packet goes, nor parameters that were only copied.
    EXPECT_THAT(hop.lines, Each(Not(AnyOf(HasSubstr("ipv4_host"), HasSubstr("parse"),
                                          HasSubstr("Policy.RED"), HasSubstr("ttl")))));
    EXPECT_LE(hop.lines.size(), 9u);
  }
}

TEST_F(HopTraceTest, RedSaysAverageProbabilityAndWhatWasLeft) {
  bench.red(kPort, {});
  trace({.share = 1, .registers = {"red_average", "codel_phase"}});
  for (int i = 0; i < 600; ++i) {
    send(1);
    bench.advance(kService * 9 / 10);
  }
  const std::vector<Hop> hops = finish();
  EXPECT_EQ(hops.size(), 600u);
  ASSERT_GT(with(hops, "marked"), 5u);
  for (const Hop& hop : hops) {
    ASSERT_TRUE(hop.registers[0]) << hop.packet.ip_id;
    EXPECT_FALSE(hop.registers[1]);  // the decision did not touch it
    if (hop.fate != "marked") continue;
    EXPECT_THAT(hop.by, HasSubstr("headers.p4"));
    EXPECT_THAT(hop.lines, Contains(HasSubstr("red_until_mark[2] is ")));
    EXPECT_THAT(hop.lines, Contains(HasSubstr("p_b = ((average - red.min_th) * red.slope) >> 8")));
    EXPECT_THAT(hop.lines, Contains(AllOf(HasSubstr("by_chance && state.until_mark > p_b"),
                                          HasSubstr(": no"), HasSubstr("by_chance 1"))));
    EXPECT_THAT(hop.lines.back(), HasSubstr("ipv4.ecn = 3"));
    // The average, in the program's units, is the one that the register got.
    const auto average = static_cast<std::uint64_t>(*hop.registers[0]);
    EXPECT_THAT(hop.lines, Contains(HasSubstr("average " + std::to_string(average))));
  }
  // One that was in range and passed says by how much.
  const auto spared = std::find_if(hops.begin(), hops.end(), [](const Hop& hop) {
    return hop.fate == "passed" && *hop.registers[0] > (6 << 18);
  });
  ASSERT_NE(spared, hops.end());
  EXPECT_THAT(spared->lines,
              Contains(AllOf(HasSubstr("state.until_mark > p_b"), HasSubstr(": yes"))));
}

TEST_F(HopTraceTest, WhereOthersAreMarkedAPacketThatIsNotEctIsDropped) {
  RedParameters red;
  red.min_th = 0, red.max_th = 1, red.mark_above_max = true;
  bench.red(kPort, red);
  trace();
  for (int i = 0; i < 900; ++i) {
    send(1, i < 880 ? kEct0 : kNotEct);
    bench.advance(kService * 9 / 10);
  }
  const std::vector<Hop> hops = finish();
  const auto dropped =
      std::find_if(hops.begin(), hops.end(), [](const Hop& hop) { return hop.fate == "dropped"; });
  ASSERT_NE(dropped, hops.end());
  EXPECT_GE(dropped->packet.ip_id, 880);
  EXPECT_TRUE(dropped->wait_ns);
  EXPECT_FALSE(dropped->transit_ns);
  EXPECT_THAT(dropped->by, HasSubstr("tiercast.p4"));
  EXPECT_THAT(dropped->lines, Contains(AllOf(HasSubstr("ect(ipv4.ecn)"), HasSubstr("ipv4.ecn 0"))));
  EXPECT_THAT(dropped->lines.back(), HasSubstr("mark_to_drop"));
}

TEST_F(HopTraceTest, AFullQueueIsNoDecisionOfTheProgram) {
  bench.limit(kPort, 8e6, 3);
  bench.no_marking(kPort);
  trace();
  send(6);
  const std::vector<Hop> hops = finish();
  EXPECT_EQ(with(hops, "full"), 2u);
  for (const Hop& hop : hops) {
    if (hop.fate != "full") continue;
    EXPECT_EQ(hop.found_packets, 3u);
    EXPECT_FALSE(hop.wait_ns);
    EXPECT_THAT(hop.lines, ElementsAre(HasSubstr("is full: 3 packets")));
  }
}

TEST_F(HopTraceTest, RedOnArrivalSaysItsAverage) {
  engine::PortConfig config = *bench.engine_switch().port_config(kPort);
  config.red = engine::RedConfig{};
  config.red->min_th = 0.5, config.red->max_th = 1, config.red->weight = 0.5;
  config.red->ecn = config.red->mark_above_max = true;
  ASSERT_TRUE(bench.engine_switch().set_port(kPort, config, bench.now()).ok());
  bench.no_marking(kPort);
  trace();
  send(6);
  send(2, kNotEct);
  const std::vector<Hop> hops = finish();
  ASSERT_THAT(hops, SizeIs(8));
  double average = 0;
  for (std::size_t id = 0; id < 8; ++id) {
    const auto hop = std::find_if(hops.begin(), hops.end(),
                                  [&](const Hop& one) { return one.packet.ip_id == id; });
    average = 0.5 * average + 0.5 * hop->found_packets;
    EXPECT_NEAR(hop->red_average.value_or(-1), average, 1e-6) << id;
    const bool over = average >= 1 && hop->found_packets >= 2;
    EXPECT_EQ(hop->fate, !over ? "passed" : id < 6 ? "marked" : "dropped") << id;
    EXPECT_EQ(hop->by, over ? "RED on arrival" : "") << id;
  }
}

TEST_F(HopTraceTest, OnlyTracedPortsAndTheSampleHaveRows) {
  bench.limit(kOther, 8e6, 100);
  trace({.share = 0.25, .registers = {}});
  for (int i = 0; i < 400; ++i) {
    send(1);
    send(1, kEct0, "10.0.2.2");
    bench.advance(2 * kService);
  }
  const std::vector<Hop> hops = finish();
  EXPECT_GT(hops.size(), 60u);  // of 100; four standard deviations are 35
  EXPECT_LT(hops.size(), 140u);
  for (const Hop& hop : hops) EXPECT_EQ(hop.port, kPort);
}

TEST_F(HopTraceTest, CopiesOfAPacketHaveRowsOfTheirOwn) {
  const std::uint32_t address = group(1, 0);
  bench.subscribe(address, 1, {kPort, kOther});
  sink.emplace(std::map<std::uint32_t, TracedPort>{{kPort, {}}, {kOther, {}}}, kMany);
  bench.engine_switch().set_trace(&*sink);
  bench.receive(kIn, layer_packet(1, 0));
  const std::vector<Hop> hops = finish();
  ASSERT_THAT(hops, SizeIs(2));
  EXPECT_NE(hops[0].port, hops[1].port);
  for (const Hop& hop : hops) {
    EXPECT_EQ(hop.packet.session, 1);
    EXPECT_EQ(hop.fate, "passed");
  }
}

TEST_F(HopTraceTest, WhileTooManyAreHeldPacketsAreSkippedAndCounted) {
  trace({}, 10);
  for (int i = 0; i < 25; ++i) {
    send(1);
    bench.advance(2 * kService);
  }
  EXPECT_THAT(sink->take(), SizeIs(10));
  EXPECT_EQ(sink->skipped(), 15u);
  send(1);
  EXPECT_THAT(finish(), SizeIs(1));
}

TEST_F(HopTraceTest, WhatAnotherProgramTookAwayIsLostAndHeldNoLonger) {
  trace({}, 10);
  send(8);
  bench.advance(3 * kService + kService / 2);
  bench.reload();
  const std::vector<Hop> hops = sink->take();
  EXPECT_EQ(with(hops, "passed"), 3u);
  EXPECT_EQ(with(hops, "lost"), 5u);
  EXPECT_THAT(hops.back().lines, ElementsAre("another program was set"));
  bench.host("10.0.1.2", kPort, 0x020000000202);
  send(10);
  EXPECT_THAT(finish(), AllOf(SizeIs(10), Each(testing::Field(&Hop::fate, "passed"))));
  EXPECT_EQ(sink->skipped(), 0u);
}

TEST_F(HopTraceTest, ATraceChangesNothing) {
  const auto run = [](bool traced) {
    Bench one(7);
    one.host("10.0.1.2", kPort, 0x020000000202);
    one.limit(kPort, 8e6, 20);
    one.red(kPort, {});
    HopTrace all({{kPort, {}}}, kMany);
    if (traced) one.engine_switch().set_trace(&all);
    for (std::uint16_t i = 0; i < 500; ++i) {
      Packet packet;
      packet.ecn = i % 3 == 0 ? kNotEct : kEct0;
      packet.identification = i;
      packet.payload = udp(9, Frame(972));
      one.receive(kIn, packet);
      one.advance(kService * 9 / 10);
    }
    one.finish();
    std::vector<std::pair<Frame, std::int64_t>> out;
    for (const Sent& sent : one.sent()) out.emplace_back(sent.frame, sent.due_ns);
    return out;
  };
  EXPECT_EQ(run(true), run(false));
}

}  // namespace
}  // namespace tiercast::trace
