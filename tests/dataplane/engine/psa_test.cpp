// What psa_paths.stf and psa_externs.stf cannot say about PSA: time, queues, the CPU port, traces.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "dataplane/engine/control/trace.h"
#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr unsigned kToCpu = 1, kRecirculate = 4, kResubmit = 8, kCloneOut = 16, kCloneIn = 32;

// A packet of psa_paths.p4.
Frame order(unsigned flags, unsigned to = 2, unsigned session = 0, std::size_t bytes = 11) {
  FrameBuilder f;
  f.put(flags, 8).put(to, 8).put(session, 8).put(0, 8);
  f.put(0, 56);
  return f.pad_to(bytes).take();
}

TEST(Psa, TheCpuPortHasPsasNumber) {
  Bench bench("psa_paths");
  bench.receive(1, order(kToCpu));
  ASSERT_EQ(bench.out.punted.size(), 1u);
  EXPECT_EQ(number_at(bench.out.punted[0], 12, 4), 0xfffffffdu) << "egress_port";
  bench.receive(510, order(0));
  ASSERT_EQ(bench.out.sent.size(), 1u);
  EXPECT_EQ(number_at(bench.out.sent[0].frame, 5, 4), 0xfffffffdu) << "ingress_port";
}

TEST(Psa, ClonesAreCutBeforeEgress) {
  Bench bench("psa_paths");
  EXPECT_OK(bench.sw.insert_clone_session(6, {{{5, 77}}, 20}));
  for (const unsigned flags : {kCloneIn, kCloneOut}) {
    bench.out.sent.clear();
    bench.receive(1, order(flags, 2, 6, 100));
    ASSERT_EQ(bench.out.sent.size(), 2u);
    for (const auto& sent : bench.out.sent) {
      if (sent.port == 2) {
        EXPECT_EQ(sent.frame.size(), 109u);
        continue;
      }
      // The clone in egress has egress's header of 9 bytes already.
      EXPECT_EQ(sent.port, 5u);
      EXPECT_EQ(sent.frame.size(), flags == kCloneIn ? 29u : 20u);
      EXPECT_EQ(number_at(sent.frame, 16, 2), 77u) << "instance";
    }
  }
}

TEST(Psa, WhatGoesRoundKeepsItsPortOfArrivalAndNoMetadata) {
  Bench bench("psa_paths");
  for (const unsigned flags : {kResubmit, kRecirculate}) bench.receive(3, order(flags));
  ASSERT_EQ(bench.out.sent.size(), 2u);
  EXPECT_EQ(number_at(bench.out.sent[0].frame, 5, 4), 3u);
  EXPECT_EQ(number_at(bench.out.sent[1].frame, 5, 4), 0xfffffffau);
  EXPECT_EQ(bench.sw.stats(2).egress_dropped_packets, 0u);
  EXPECT_EQ(bench.sw.switch_stats().recirculation_limit_packets, 0u);
}

TEST(Psa, ACloneMayBeCloned) {
  Bench bench("psa_paths");
  EXPECT_OK(bench.sw.insert_clone_session(6, {{{5, 0}}, 0}));
  bench.receive(1, order(kCloneIn | kCloneOut, 2, 6));
  EXPECT_THAT(bench.out.ports(), ElementsAre(2, 5, 5, 5))
      << "the packet; its clone in ingress; the clones in egress of both";
}

TEST(Psa, CountsWhatTheProgramDrops) {
  Bench bench("psa_paths");
  bench.receive(1, order(0x80));
  EXPECT_EQ(bench.sw.switch_stats().ingress_dropped_packets, 1u);
  bench.receive(1, order(0x02));
  EXPECT_EQ(bench.sw.stats(2).egress_dropped_packets, 1u);
  EXPECT_THAT(bench.out.sent, IsEmpty());
}

TEST(Psa, AQueueCountsTheFrameThatIngressMade) {
  Bench bench("psa_paths");
  EXPECT_OK(bench.sw.set_port(2, {.rate_bps = 8e6, .queue_bytes = 1100}));
  for (int n = 0; n < 3; ++n) bench.receive(1, order(0, 2, 0, 1000));
  EXPECT_EQ(bench.sw.stats(2).queue_bytes, 1000u);
  EXPECT_EQ(bench.sw.stats(2).dropped_packets, 1u);
  bench.finish();
  ASSERT_EQ(bench.out.sent.size(), 2u);
  EXPECT_EQ(bench.out.sent[0].due_ns, 1'009'000) << "with egress's header";
}

TEST(Psa, LabelsAreOfTheFrameThatIngressMade) {
  const LabelRule rule{"ingress", "path",
                       [](std::uint64_t value) { return 1 + static_cast<std::uint32_t>(value); }};
  Bench bench("psa_paths", {.label = rule});
  bench.receive(1, order(0));
  bench.receive(1, order(kResubmit));
  EXPECT_THAT(bench.sw.label_counts(2),
              ElementsAre(LabelCounts{.label = 1, .entered = 1, .served = 1},
                          LabelCounts{.label = 6, .entered = 1, .served = 1}));
}

TEST(Psa, SendsDigests) {
  struct Learner : Recorder {
    bool digest(const DigestList& list) override {
      learnt.push_back(list.at(0));
      return true;
    }
    std::vector<DigestData> learnt;
  } out;
  Switch sw(load_program("psa_externs"), {}, out);
  EXPECT_OK(sw.set_port(1, {}));
  EXPECT_OK(sw.set_port(2, {}));
  EXPECT_OK(sw.configure_digest("digest", DigestConfig{}));
  FrameBuilder f;
  f.put(0x3132333435363738, 64).put(0x39, 8).put(5, 8).put(1, 8);
  sw.receive(1, f.pad_to(60).take(), 0);
  EXPECT_THAT(out.learnt, ElementsAre(ElementsAre(big_endian(5, 1), Bytes("123456789"))));
}

class Sink : public TraceSink {
 public:
  bool wants(std::uint32_t, std::span<const std::byte>) override { return true; }
  void event(const TraceEvent& event) override { events.push_back(to_json(event)); }
  std::vector<std::string> events;
};

TEST(Psa, TracesBothParsersAndTheDrop) {
  Bench bench("psa_paths");
  Sink sink;
  bench.sw.set_trace(&sink);
  bench.receive(1, order(0x02));
  std::string all;
  for (const std::string& event : sink.events) all += event + "\n";
  EXPECT_THAT(all, HasSubstr(R"("kind":"parse","time_ns":0,"packet":1,"copy":0,)"
                             R"("pipeline":"ingress","states":["start"])"));
  EXPECT_THAT(all, HasSubstr(R"("pipeline":"egress","states":["start"])"));
  EXPECT_THAT(all, HasSubstr(R"("kind":"enqueue")"));
  EXPECT_THAT(sink.events.back(), HasSubstr(R"("kind":"drop")"));
  EXPECT_THAT(sink.events.back(), HasSubstr(R"("where":"egress")"));
  EXPECT_THAT(sink.events.back(), HasSubstr(R"("by":"egress_drop")"));
}

// tiercast_psa.p4 on a link of 8 Mbit/s.
class PsaProgram : public ::testing::Test {
 protected:
  explicit PsaProgram(std::string depth_register = "queue_depth")
      : sw(load(), {.depth_register = std::move(depth_register)}, out) {
    EXPECT_OK(sw.set_port(1, {}));
    EXPECT_OK(sw.set_port(2, {.rate_bps = 8e6, .queue_packets = 10}));
    EXPECT_OK(sw.insert_entry("ipv4_host", {{FieldMatch::exact(big_endian(0x0a000102, 4))},
                                            0,
                                            {"forward", {big_endian(2, 2), big_endian(7, 6)}},
                                            {}}));
  }
  static std::shared_ptr<const Program> load() {
    const std::string path = TIERCAST_COMPILED "/tiercast_psa.json";
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return Program::load(text.str(), path);
  }
  void policy(const std::string& action, std::uint64_t limit) {
    EXPECT_OK(sw.insert_entry(
        "port_marking",
        {{FieldMatch::exact(big_endian(2, 2))}, 0, {action, {big_endian(limit, 4)}}, {}}));
  }
  void send(int count) {
    FrameBuilder f;
    f.put(0x020000000101, 48).put(0x020000000003, 48).put(0x0800, 16);
    f.put(0x4502, 16).put(986, 16).put(0, 32).put(0x4011, 16).put(0, 16);
    f.put(0x0a000003, 32).put(0x0a000102, 32);
    const Frame frame = f.pad_to(1000).take();
    for (int n = 0; n < count; ++n) sw.receive(1, frame, 0);
  }
  std::uint64_t depth() {
    const Bytes value = sw.read_register("queue_depth", 2).value();
    return static_cast<unsigned char>(value.back());
  }
  // The ECN fields of what has left.
  std::vector<unsigned> marks(std::int64_t now) {
    sw.advance(now);
    std::vector<unsigned> all;
    for (const auto& sent : out.sent) all.push_back(number_at(sent.frame, 15, 1) & 3);
    return all;
  }
  Recorder out;
  Switch sw;
};

TEST_F(PsaProgram, MarksByTheDepthOfTheQueue) {
  policy("threshold_marking", 2);
  send(6);
  EXPECT_EQ(depth(), 5u);
  EXPECT_THAT(marks(2 * kMillisecond), ElementsAre(2, 3)) << "4 waited behind the second";
  EXPECT_EQ(depth(), 3u);
  EXPECT_THAT(marks(10 * kMillisecond), ElementsAre(2, 3, 3, 2, 2, 2));
  EXPECT_EQ(depth(), 0u);
}

TEST_F(PsaProgram, TheDepthFollowsWhateverEmptiesTheQueue) {
  send(6);
  EXPECT_OK(sw.set_port(2, {.rate_bps = 8e6, .wire = {.up = false}}, 1));
  sw.advance(10 * kMillisecond);
  EXPECT_EQ(depth(), 0u);
  EXPECT_EQ(sw.stats(2).down_dropped_packets, 5u);
}

TEST_F(PsaProgram, ARemovedPortHasNoDepth) {
  send(6);
  EXPECT_OK(sw.remove_port(2));
  EXPECT_EQ(depth(), 0u);
}

class NoDepth : public PsaProgram {
 protected:
  NoDepth() : PsaProgram("") {}
};

TEST_F(NoDepth, TheControlPlaneMayWriteTheRegister) {
  policy("threshold_marking", 2);
  send(6);
  EXPECT_EQ(depth(), 0u);
  EXPECT_OK(sw.write_register("queue_depth", 2, big_endian(3, 4)));
  EXPECT_THAT(marks(10 * kMillisecond), ElementsAre(2, 3, 3, 3, 3, 3));
}

}  // namespace
}  // namespace tiercast::engine
