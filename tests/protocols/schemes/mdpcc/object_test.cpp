// MDP-CC delivers a whole file: repair by NACKs, their suppression, the end of a transfer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "protocols/schemes/mdpcc/object_receiver.h"
#include "protocols/schemes/mdpcc/receiver.h"
#include "protocols/schemes/mdpcc/sender.h"
#include "protocols/testkit/hosts.h"
#include "tests/protocols/rigs/impairment.h"

namespace tiercast::testkit {
namespace {

std::vector<std::byte> random_object(std::size_t bytes, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::byte> object(bytes);
  for (std::byte& b : object) b = static_cast<std::byte>(rng.next());
  return object;
}

// One link of 10 Mbit/s to node 1, with hosts behind it.
class Transfer {
 public:
  Transfer(unsigned receivers, std::size_t bytes, const Impairment::Rates& rates,
           std::uint64_t seed, const std::vector<std::string>& set = {})
      : object(random_object(bytes, seed)),
        scheme_(find_scheme("mdpcc")),
        tree_(simulator, parents(receivers), link(), Duration::milliseconds(5)) {
    SessionConfig config;
    config.session = 1;
    config.seed = seed;
    config.parameters = Parameters(scheme_.parameters);
    for (const std::string& assignment : set) config.parameters.set(assignment);
    config.object = object;
    sender = std::make_unique<SenderHost>(simulator, tree_, 0, scheme_, config);
    sender->set_send_loss(rates.loss);  // probes and reflections
    config.object = {};
    for (unsigned i = 0; i < receivers; ++i) {
      config.self_id = i + 2;
      config.seed = seed * 1000 + i;
      hosts.push_back(std::make_unique<ReceiverHost>(simulator, tree_, i + 2, scheme_, config));
      hosts.back()->set_send_loss(rates.loss);
      hosts.back()->set_trace([this](Time, Tree::Node, std::string_view kind, auto) {
        nacks += kind == "mdpcc.nack";
        suppressed += kind == "mdpcc.nack_suppressed";
      });
      lines.push_back(std::make_unique<Impairment>(simulator, *hosts.back(), rates, seed * 77 + i));
      tree_.attach(i + 2, 1, lines.back().get());
    }
  }

  void start() {
    sender->start();
    for (const auto& host : hosts) host->start();
  }
  // False if it takes longer.
  bool run(Duration longest) {
    const Time end = simulator.now() + longest;
    while (simulator.now() < end && !sender->core().finished()) {
      simulator.run_for(Duration::milliseconds(100));
    }
    return sender->core().finished();
  }
  void expect_all_whole() {
    for (const auto& host : hosts) {
      EXPECT_TRUE(host->counters().complete);
      EXPECT_EQ(host->counters().delivered, object.size());  // each byte once
      EXPECT_EQ(host->object(), object);
    }
  }
  const mdpcc::Sender& core() { return dynamic_cast<const mdpcc::Sender&>(sender->core()); }

  Simulator simulator;
  const std::vector<std::byte> object;

 private:
  static std::vector<Tree::Node> parents(unsigned hosts) {
    std::vector<Tree::Node> parents(hosts + 2, 1);
    parents[0] = parents[1] = 0;
    return parents;
  }
  static LinkConfig link() {
    LinkConfig link;
    link.rate = Rate::mbit_per_second(10);
    link.delay = Duration::milliseconds(10);
    link.marking = false;
    return link;
  }

  const Scheme& scheme_;
  Tree tree_;

 public:
  std::unique_ptr<SenderHost> sender;
  std::vector<std::unique_ptr<ReceiverHost>> hosts;
  std::vector<std::unique_ptr<Impairment>> lines;
  std::uint64_t nacks = 0;
  std::uint64_t suppressed = 0;
};

constexpr Impairment::Rates kBad = {.loss = 0.05, .duplicate = 0.02, .late = 0.05};

TEST(MdpccObject, IsTheSameFile27Times) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    Transfer transfer(27, 300'001, kBad, seed, {"mdpcc.reorder=3"});
    transfer.start();
    EXPECT_TRUE(transfer.run(Duration::seconds(300)));
    transfer.expect_all_whole();
    // At least every second segment is lost somewhere: 1 - 0.95^27 = 75 %.
    EXPECT_GT(transfer.core().repairs(), 150u);
  }
}

// All receivers have the same losses, as behind a shared link, so only few NACKs are sent per
// round. With lambda = ln(100) + 1 and T = 4 GRTT, about e^(lambda / 4) = 4 NACKs fall within one
// GRTT after the first one, before anybody can have heard it. This holds for 27 and for 200
// receivers.
TEST(MdpccObject, NacksAreSuppressed) {
  for (const unsigned receivers : {27u, 200u}) {
    Transfer transfer(receivers, 300'000, {}, 4);
    for (const auto& line : transfer.lines) {
      line->lose = [](const Packet& packet) {
        wire::MdpccData data;
        return wire::parse(*packet.message, data) == wire::Error::kOk &&
               Rng(data.seq).uniform() < 0.05;
      };
    }
    transfer.start();
    EXPECT_TRUE(transfer.run(Duration::seconds(300)));
    transfer.expect_all_whole();
    const double share = static_cast<double>(transfer.suppressed) /
                         static_cast<double>(transfer.suppressed + transfer.nacks);
    std::printf("%u receivers: %llu NACKs sent, %llu suppressed (%.1f %%)\n", receivers,
                static_cast<unsigned long long>(transfer.nacks),
                static_cast<unsigned long long>(transfer.suppressed), 100 * share);
    EXPECT_GT(share, receivers == 27 ? 0.8 : 0.95);
  }
}

TEST(MdpccObject, SizesAtTheEdgesOfASegment) {
  constexpr std::size_t kSegment = 1000 - kIpUdpHeaderBytes - wire::MdpccData::kBytes;
  for (const std::size_t bytes :
       {std::size_t{1}, kSegment - 1, kSegment, kSegment + 1, 64 * kSegment, 64 * kSegment + 1}) {
    SCOPED_TRACE(bytes);
    Transfer transfer(3, bytes, kBad, 5);
    transfer.start();
    EXPECT_TRUE(transfer.run(Duration::seconds(200)));
    transfer.expect_all_whole();
  }
}

TEST(MdpccObject, LateNacksAreAnswered) {
  Transfer transfer(3, 100'000, kBad, 6);
  transfer.sender->start();
  transfer.hosts[0]->start();
  transfer.hosts[1]->start();
  ASSERT_TRUE(transfer.run(Duration::seconds(100)));
  transfer.simulator.run_for(Duration::seconds(60));
  transfer.hosts[2]->start();  // learns of the object from a probe, at most 30 s later
  transfer.simulator.run_for(Duration::seconds(60));
  EXPECT_TRUE(transfer.run(Duration::seconds(100)));
  transfer.expect_all_whole();
}

TEST(MdpccObject, ADeadReceiverHoldsUpNobody) {
  Transfer transfer(4, 200'000, kBad, 7);
  transfer.start();
  transfer.simulator.run_for(Duration::seconds(5));
  transfer.hosts[0]->die();
  EXPECT_TRUE(transfer.run(Duration::seconds(200)));
  for (int i = 1; i < 4; ++i) EXPECT_EQ(transfer.hosts[i]->object(), transfer.object);
}

TEST(MdpccObject, AStreamNeedsNoRepair) {
  Transfer transfer(3, 0, kBad, 8);
  transfer.start();
  EXPECT_FALSE(transfer.run(Duration::seconds(30)));
  EXPECT_EQ(transfer.nacks, 0u);
  for (const auto& host : transfer.hosts) {
    EXPECT_GT(host->counters().packets, 100u);
    EXPECT_FALSE(host->counters().complete);
    EXPECT_TRUE(host->object().empty());
  }
}

TEST(MdpccObject, TooLargeIsRefused) {
  const Scheme& scheme = find_scheme("mdpcc");
  const std::vector<std::byte> object(10'000);
  SessionConfig config;
  config.parameters = Parameters(scheme.parameters);
  config.parameters.set("mdpcc.max_segments=10");
  config.object = object;
  EXPECT_THROW(scheme.make_sender(config), ConfigError);
  config.parameters.set("mdpcc.max_segments=11");
  EXPECT_NO_THROW(scheme.make_sender(config));
}

// Collects what an ObjectReceiver delivers.
class Delivered : public Sink {
 public:
  void send(Destination, std::span<const std::byte>) override {}
  void join(Rank) override {}
  void leave(Rank) override {}
  void set_rate(Rank, Rate) override {}
  void release(Rank, std::uint32_t) override {}
  void deliver(std::uint64_t offset, std::span<const std::byte> bytes) override {
    parts.push_back({offset, bytes.size()});
  }
  void trace(std::string_view, std::span<const TraceField>) override {}
  std::vector<std::pair<std::uint64_t, std::size_t>> parts;
};

class ObjectReceiverTest : public ::testing::Test {
 protected:
  using Asking = mdpcc::ObjectReceiver::Asking;
  bool data(std::uint32_t segment, std::uint16_t object_id = 7, std::uint32_t count = 100,
            std::uint16_t payload = 10) {
    wire::MdpccData data;
    data.object_id = object_id;
    data.segment = segment;
    data.segment_count = count;
    data.segment_size = 10;
    data.payload_length = payload;
    const std::vector<std::byte> bytes(10);
    return receiver.data(now, data, bytes, timing, sink);
  }
  const mdpcc::ObjectReceiver::Timing timing{Duration::milliseconds(100), 4, 100};
  mdpcc::ObjectReceiver receiver{1000, 3};
  Delivered sink;
  Time now = Time::zero() + Duration::seconds(1);
};

TEST_F(ObjectReceiverTest, AsksForHolesThatNobodyElseAskedFor) {
  wire::MdpccProbe probe;
  probe.object_id = 7;
  probe.segment_size = 10;
  probe.segment_count = 100;
  probe.next_segment = 10;
  receiver.progress(now, probe, timing);
  for (const std::uint32_t segment : {0, 1, 4, 5, 9}) EXPECT_TRUE(data(segment));
  EXPECT_TRUE(data(20));  // the holes before it are younger than the back-off
  const Time at = receiver.next_timer();
  EXPECT_GT(at, now);
  EXPECT_LT(at, now + Duration::milliseconds(400));
  wire::MdpccNack heard;
  heard.object_id = 7;
  heard.record_count = 1;
  heard.segments[0] = {7, 1};
  receiver.heard(heard);
  EXPECT_TRUE(data(2));  // arrived late
  wire::MdpccNack nack;
  ASSERT_EQ(receiver.timer(at, timing, nack), Asking::kNack);
  ASSERT_EQ(nack.record_count, 3);
  EXPECT_EQ(nack.segments[0].first, 3u);
  EXPECT_EQ(nack.segments[1].first, 6u);
  EXPECT_EQ(nack.segments[2].first, 8u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(nack.segments[i].count, 1u);
  // It is silent for K + 2 GRTTs, then asks again.
  EXPECT_EQ(receiver.next_timer(), at + Duration::milliseconds(600));
  EXPECT_EQ(receiver.timer(receiver.next_timer(), timing, nack), Asking::kNothing);
  const Time again = receiver.next_timer();
  ASSERT_FALSE(again.is_never());
  ASSERT_EQ(receiver.timer(again, timing, nack), Asking::kNack);
  EXPECT_EQ(nack.record_count, 3);  // 3, 6 to 8, and 10 to 19
  EXPECT_EQ(nack.segments[1].count, 3u);
  EXPECT_EQ(nack.segments[2].count, 10u);
}

TEST_F(ObjectReceiverTest, IsSuppressedWhenAllHasBeenAskedFor) {
  data(0);
  data(5);
  wire::MdpccNack heard;
  heard.object_id = 7;
  heard.record_count = 1;
  heard.segments[0] = {0, 0xffffffff};
  receiver.heard(heard);
  wire::MdpccNack nack;
  EXPECT_EQ(receiver.timer(receiver.next_timer(), timing, nack), Asking::kSuppressed);
}

TEST_F(ObjectReceiverTest, DeliversEachPartOnce) {
  data(3);
  data(3);
  data(1);
  ASSERT_EQ(sink.parts.size(), 2u);
  EXPECT_EQ(sink.parts[0].first, 30u);
  EXPECT_EQ(receiver.delivered(), 20u);
}

TEST_F(ObjectReceiverTest, RefusesWhatCannotBe) {
  EXPECT_FALSE(data(0, 7, 1001));    // above max_segments
  EXPECT_FALSE(data(100));           // no such segment
  EXPECT_FALSE(data(0, 7, 100, 9));  // short, and not the last
  EXPECT_FALSE(data(0, 7, 100, 0));
  EXPECT_TRUE(data(99, 7, 100, 9));
  EXPECT_FALSE(data(0, 7, 101));  // the object has 100
}

TEST_F(ObjectReceiverTest, OneForeignMessageDoesNotEndATransferButARestartedSenderDoes) {
  data(0);
  EXPECT_FALSE(data(1, 8));
  EXPECT_TRUE(data(2));
  EXPECT_EQ(receiver.delivered(), 20u);
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(data(0, 9));
  EXPECT_TRUE(data(0, 9));
  EXPECT_EQ(receiver.delivered(), 10u);
}

// Whoever may send a NACK says in 24 bytes that it lacks a million segments.
TEST(MdpccNacks, AskForEachSegmentOnce) {
  constexpr std::uint32_t kSegments = 1'000'000;
  const std::vector<std::byte> object(kSegments);
  mdpcc::ObjectSender sender(object, 1, kSegments);
  const Time now = Time::zero() + Duration::seconds(1);
  for (std::uint32_t i = 0; i < kSegments; ++i) sender.take(now);
  mdpcc::ObjectReceiver receiver(kSegments, 1);
  const mdpcc::ObjectReceiver::Timing timing{Duration::milliseconds(100), 4, 100};
  wire::MdpccProbe probe;
  probe.segment_size = 1;
  probe.segment_count = probe.next_segment = kSegments;
  receiver.progress(now, probe, timing);
  wire::MdpccNack nack;
  nack.record_count = 1;
  nack.segments[0] = {0, 0xfffffffe};
  EXPECT_EQ(sender.request(now, nack), kSegments);
  EXPECT_EQ(sender.request(now, nack), 0u);
  receiver.heard(nack);
  // All has been asked for.
  EXPECT_EQ(receiver.timer(receiver.next_timer(), timing, nack),
            mdpcc::ObjectReceiver::Asking::kSuppressed);
}

TEST(SegmentSet, AgreesWithAListOfBooleans) {
  Rng rng(9);
  for (const std::uint32_t bound : {1u, 63u, 64u, 65u, 200u}) {
    mdpcc::SegmentSet set(bound);
    std::vector<bool> model(bound);
    for (int step = 0; step < 2000; ++step) {
      const auto segment = static_cast<std::uint32_t>(rng.below(bound));
      if (rng.uniform() < 0.5) {
        EXPECT_EQ(set.insert(segment), !model[segment]);
        model[segment] = true;
      } else {
        set.erase(segment);
        model[segment] = false;
      }
      const auto from = static_cast<std::uint32_t>(rng.below(bound + 1));
      const auto end = static_cast<std::uint32_t>(rng.below(bound + 1));
      if (rng.uniform() < 0.1) {
        mdpcc::SegmentSet other(bound), another(bound);
        for (std::uint32_t i = 0; i < bound / 2; ++i) {
          other.insert(static_cast<std::uint32_t>(rng.below(bound)));
          another.insert(static_cast<std::uint32_t>(rng.below(bound)));
        }
        std::uint32_t added = 0;
        for (std::uint32_t i = from; i < end; ++i) {
          if (model[i] || other.contains(i) || another.contains(i)) continue;
          model[i] = true;
          ++added;
        }
        ASSERT_EQ(set.insert(from, end, {&other, &another}), added);
      }
      for (const bool member : {true, false}) {
        std::uint32_t expected = from;
        while (expected < end && model[expected] != member) ++expected;
        if (from >= end) expected = end;
        ASSERT_EQ(member ? set.next(from, end) : set.next_absent(from, end), expected);
      }
      ASSERT_EQ(set.size(), std::count(model.begin(), model.end(), true));
    }
    set.clear();
    EXPECT_EQ(set.next(0, bound), bound);
  }
}

}  // namespace
}  // namespace tiercast::testkit
