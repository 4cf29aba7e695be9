// MDP-CC's rules one by one (PROTOCOLS 6.3 to 6.5).
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "protocols/schemes/mdpcc/goal_rate.h"
#include "protocols/schemes/mdpcc/mdpcc.h"
#include "protocols/schemes/mdpcc/receiver.h"
#include "protocols/schemes/mdpcc/representatives.h"
#include "protocols/schemes/mdpcc/sender.h"

namespace tiercast::mdpcc {
namespace {

using Change = Representatives::Change;
using Reason = GoalRate::Reason;

Rate bps(double v) { return Rate::bytes_per_second(v); }
Duration ms(std::int64_t v) { return Duration::milliseconds(v); }

Representative member(std::uint32_t id, double rate, std::int64_t rtt_ms = 100,
                      bool confirmed = true) {
  Representative r;
  r.id = id;
  r.rate = bps(rate);
  r.rtt.update(ms(rtt_ms));
  r.rtt_confirmed = confirmed;
  return r;
}

TEST(MdpccRepresentatives, TheLowestRateIsTheClr) {
  Representatives list(5);
  EXPECT_EQ(list.clr(), nullptr);
  EXPECT_EQ(list.offer(member(1, 1000)), Change::kNewClr);
  EXPECT_EQ(list.offer(member(2, 2000)), Change::kJoined);
  EXPECT_EQ(list.offer(member(3, 500)), Change::kNewClr);
  EXPECT_EQ(list.clr()->id, 3u);
  EXPECT_EQ(list.size(), 3u);
  EXPECT_EQ(list.offer(member(3, 5000)), Change::kUpdated);  // stays until another one reports
  EXPECT_EQ(list.offer(member(1, 1000)), Change::kNewClr);
  // About the same rate, and a longer round trip.
  EXPECT_EQ(list.offer(member(4, 1090, 101)), Change::kNewClr);
  EXPECT_EQ(list.offer(member(5, 1190, 100)), Change::kJoined);
}

TEST(MdpccRepresentatives, AreAtMostFiveAndTheHighestRateGoes) {
  Representatives list(5);
  for (std::uint32_t id = 1; id <= 5; ++id) list.offer(member(id, id * 1000.0));
  EXPECT_EQ(list.offer(member(6, 9000)), Change::kNone);
  EXPECT_EQ(list.offer(member(7, 4500)), Change::kJoined);
  EXPECT_EQ(list.size(), 5u);
  EXPECT_EQ(list.find(5), nullptr);
  // A receiver with an unknown RTT may replace one that knows its RTT, in order to learn it.
  EXPECT_EQ(list.offer(member(8, 9000, 100, false)), Change::kJoined);
  EXPECT_EQ(list.find(7), nullptr);
  EXPECT_EQ(list.offer(member(9, 10, 100, false)), Change::kNewClr);
  EXPECT_EQ(list.size(), 5u);
  EXPECT_NE(list.find(1), nullptr);  // the old CLR is a candidate again
}

TEST(MdpccRepresentatives, WhenTheClrLeavesTheNextLowestFollows) {
  Representatives list(5);
  for (std::uint32_t id = 1; id <= 4; ++id) list.offer(member(id, 5000 - id * 1000.0));
  EXPECT_EQ(list.clr()->id, 4u);
  EXPECT_FALSE(list.remove(2));
  EXPECT_TRUE(list.remove(4));
  EXPECT_EQ(list.clr()->id, 3u);
  EXPECT_TRUE(list.remove(3));
  EXPECT_TRUE(list.remove(1));
  EXPECT_EQ(list.clr(), nullptr);
  EXPECT_FALSE(list.remove(1));
}

class MdpccGoalRate : public ::testing::Test {
 protected:
  GoalRate make(const std::vector<std::string>& set = {}) {
    SessionConfig config;
    config.parameters = Parameters(parameter_list());
    for (const std::string& assignment : set) config.parameters.set(assignment);
    GoalRate rate(Settings::from(config), 1000, 944);
    rate.start(now, grtt);
    return rate;
  }
  const Duration grtt = ms(500);
  Time now = Time::zero() + Duration::seconds(10);
};

TEST_F(MdpccGoalRate, StartsWithAPacketPerGrttAndDoubles) {
  GoalRate rate = make();
  EXPECT_EQ(rate.rate(), bps(2000));
  Representative clr = member(1, 1e5);
  clr.start = true;
  EXPECT_EQ(rate.response(now, clr, true, grtt), Reason::kSlowStart);
  EXPECT_EQ(rate.rate(), bps(4000));
  clr.rate = bps(5000);
  rate.response(now, clr, true, grtt);
  EXPECT_EQ(rate.rate(), bps(5000));
  // If no data was on its way, a response tells nothing.
  clr.rate = bps(1e6);
  EXPECT_EQ(rate.response(now, clr, false, grtt), Reason::kNone);
  EXPECT_EQ(rate.rate(), bps(5000));
}

// One packet per RTT in each RTT: 1000 B / 0.1 s.
TEST_F(MdpccGoalRate, RisesLinearlyToTheGoal) {
  GoalRate rate = make();
  const Representative clr = member(1, 25'000);
  rate.response(now = now + ms(100), clr, true, grtt);
  EXPECT_NEAR(rate.rate().bytes_per_second(), 12'000, 1e-6);
  rate.response(now = now + ms(50), clr, true, grtt);  // half a round trip: half a step
  EXPECT_NEAR(rate.rate().bytes_per_second(), 17'000, 1e-6);
  rate.response(now = now + ms(300), clr, true, grtt);  // never more than one step
  EXPECT_NEAR(rate.rate().bytes_per_second(), 25'000, 1e-6);
  EXPECT_EQ(rate.response(now = now + ms(100), clr, true, grtt), Reason::kDecrease);
  EXPECT_EQ(rate.rate(), bps(25'000));
}

TEST_F(MdpccGoalRate, TheOldStepIsASegmentPerSecond) {
  GoalRate rate = make({"mdpcc.linear_mode=1"});
  rate.response(now = now + ms(100), member(1, 25'000), true, grtt);
  EXPECT_EQ(rate.rate(), bps(2944));
}

TEST_F(MdpccGoalRate, FallsToTheGoalAtOnceOrExponentially) {
  for (const bool at_once : {true, false}) {
    GoalRate rate = make({at_once ? "mdpcc.decrease_mode=0" : "mdpcc.decrease_mode=1",
                          "mdpcc.initial_rate=800kbit/s"});
    const Representative clr = member(1, 30'000);
    rate.response(now = now + ms(100), clr, true, grtt);
    EXPECT_EQ(rate.rate(), bps(at_once ? 30'000 : 50'000));
    rate.response(now = now + ms(100), clr, true, grtt);
    EXPECT_EQ(rate.rate(), bps(30'000));
  }
}

TEST_F(MdpccGoalRate, SilenceHalvesDownToTheFloor) {
  GoalRate rate = make({"mdpcc.initial_rate=800kbit/s"});
  const Representative clr = member(1, 30'000);
  rate.response(now, clr, true, grtt);
  EXPECT_EQ(rate.no_response(now + ms(1999), &clr, grtt, grtt), Reason::kNone);
  EXPECT_EQ(rate.no_response(now + ms(2000), &clr, grtt, grtt), Reason::kUnheard);
  EXPECT_EQ(rate.rate(), bps(15'000));
  EXPECT_EQ(rate.no_response(now + ms(2100), &clr, grtt, grtt), Reason::kNone);
  EXPECT_EQ(rate.no_response(now + ms(2500), &clr, grtt, grtt), Reason::kUnheard);
  EXPECT_EQ(rate.rate(), bps(7'500));
  rate.clr_chosen(now + ms(2600), ms(100));  // a new CLR has ten of its RTTs to answer
  EXPECT_EQ(rate.no_response(now + ms(3500), &clr, grtt, grtt), Reason::kNone);
  EXPECT_EQ(rate.no_response(now + ms(3600), &clr, grtt, grtt), Reason::kUnheard);
  for (int i = 0; i < 20; ++i) rate.no_response(now + ms(5000 + 500 * i), nullptr, grtt, grtt);
  EXPECT_EQ(rate.rate(), bps(1000));  // a packet per second
}

TEST_F(MdpccGoalRate, TheCapHolds) {
  GoalRate rate = make({"mdpcc.max_rate=40kbit/s"});
  Representative clr = member(1, 1e9, 1);
  for (const bool start : {true, false}) {
    clr.start = start;
    for (int i = 0; i < 10; ++i) rate.response(now = now + ms(100), clr, true, grtt);
    EXPECT_EQ(rate.rate(), bps(5000));
  }
}

// A sender or receiver on its own, with only its inputs and outputs.
class Wire : public Sink {
 public:
  void send(Destination to, std::span<const std::byte> message) override {
    EXPECT_LE(message.size(), sizeof(bytes_));
    wire::MdpccProbe probe;
    wire::MdpccReport report;
    wire::MdpccNack nack;
    if (wire::parse(message, probe) == wire::Error::kOk) {
      EXPECT_EQ(to.kind, Destination::Kind::kGroup);
      probes.push_back(probe);
    } else if (wire::parse(message, report) == wire::Error::kOk) {
      EXPECT_EQ(to.kind, report.reflected ? Destination::Kind::kGroup : Destination::Kind::kSender);
      reports.push_back(report);
    } else if (wire::parse(message, nack) == wire::Error::kOk) {
      nacks.push_back(nack);
    } else {
      ADD_FAILURE() << "not a message of MDP-CC";
    }
  }
  void join(Rank) override { ++joined; }
  void leave(Rank) override { --joined; }
  void set_rate(Rank, Rate r) override { rate = r; }
  void release(Rank, std::uint32_t) override {}
  void deliver(std::uint64_t, std::span<const std::byte>) override {}
  void trace(std::string_view, std::span<const TraceField>) override {}

  template <class Message>
  void give(Core& core, Time now, const Message& message, bool ce = false) {
    std::fill(std::begin(bytes_), std::end(bytes_), std::byte{});
    const std::size_t length = wire::write(message, bytes_);
    const std::size_t size = std::is_same_v<Message, wire::MdpccData> ? 972 : length;
    core.receive(now, {{bytes_, size}, static_cast<std::uint32_t>(size + 28), ce, 9}, *this);
  }

  std::vector<wire::MdpccProbe> probes;
  std::vector<wire::MdpccReport> reports;
  std::vector<wire::MdpccNack> nacks;
  Rate rate;
  int joined = 0;

 private:
  std::byte bytes_[1000];
};

SessionConfig session(std::uint64_t seed = 1) {
  SessionConfig config;
  config.session = 3;
  config.self_id = 42;
  config.seed = seed;
  config.parameters = Parameters(parameter_list());
  return config;
}

class MdpccSender : public ::testing::Test {
 protected:
  void SetUp() override {
    sender.start(now, sink);
    sender.membership(now, 0, sink);
    tick();
  }
  // The next probe.
  const wire::MdpccProbe& tick() {
    now = std::max(now, sender.next_timer());
    sender.timer(now, sink);
    return sink.probes.back();
  }
  wire::MdpccReport answer(std::uint32_t source, std::uint32_t rate) const {
    wire::MdpccReport report;
    report.session = 3;
    report.source = source;
    report.probe_seq = sink.probes.back().probe_seq;
    report.response_us = sink.probes.back().tx_time_us;
    report.rate = rate;
    report.flags = wire::kMdpccStart;
    return report;
  }
  Sender sender{session()};
  Wire sink;
  // The clock's microseconds wrap during the test.
  Time now = Time::zero() + Duration::microseconds((std::int64_t{1} << 32) - 300'000);
};

TEST_F(MdpccSender, ProbesOncePerGrtt) {
  EXPECT_EQ(sink.probes.size(), 1u);
  EXPECT_EQ(sink.probes[0].grtt_us, 500'000u);
  EXPECT_EQ(sink.probes[0].tx_rate, 2000u);
  const Time then = now;
  tick();
  EXPECT_EQ(now - then, ms(500));
  EXPECT_EQ(static_cast<std::uint16_t>(sink.probes[1].probe_seq - sink.probes[0].probe_seq), 1);
}

TEST_F(MdpccSender, MeasuresRoundTripsWithoutTheHoldingTime) {
  wire::MdpccReport report = answer(7, 2000);
  report.response_us += 400'000;  // held for 400 ms, in which the microseconds wrap
  now = now + ms(480);
  sink.give(sender, now, report);
  ASSERT_NE(sender.representatives().clr(), nullptr);
  EXPECT_EQ(sender.representatives().clr()->rtt.srtt(), ms(80));
  EXPECT_EQ(tick().record_count, 1);
  EXPECT_EQ(sink.probes.back().representatives[0].receiver, 7u);
  EXPECT_EQ(sink.probes.back().representatives[0].rtt_us, 80'000u);
  EXPECT_EQ(sink.probes.back().representatives[0].flags,
            wire::kMdpccClr | wire::kMdpccRtt | wire::kMdpccStart);
}

// PROTOCOLS 6.3: rises at once by three quarters of the difference, falls by a tenth per GRTT, and
// never below the peak.
TEST_F(MdpccSender, GrttFollowsTheLongestPath) {
  const wire::MdpccReport report = answer(7, 2000);
  now = now + ms(900);
  sink.give(sender, now, report);
  EXPECT_EQ(sender.grtt(), ms(800));  // 0.25 * 500 + 0.75 * 900
  tick();                             // the peak of this GRTT was above it
  EXPECT_EQ(sender.grtt(), ms(800));
  std::vector<double> grtts;
  for (int i = 0; i < 40; ++i) {
    const wire::MdpccReport again = answer(7, 2000);
    now = now + ms(100);
    sink.give(sender, now, again);
    tick();
    if (grtts.empty() || sender.grtt().seconds() != grtts.back()) {
      grtts.push_back(sender.grtt().seconds());
    }
  }
  ASSERT_GT(grtts.size(), 3u);
  for (std::size_t i = 1; i < grtts.size(); ++i) EXPECT_GE(grtts[i], 0.9 * grtts[i - 1] - 1e-9);
  EXPECT_NEAR(grtts.back(), 0.1, 1e-3);
}

TEST_F(MdpccSender, ReflectsReportsOfThoseItDoesNotProbe) {
  now = now + ms(100);
  sink.give(sender, now, answer(7, 2000));
  ASSERT_EQ(sink.reports.size(), 1u);
  EXPECT_TRUE(sink.reports[0].reflected);
  EXPECT_EQ(sink.reports[0].source, 7u);
  tick();
  now = now + ms(100);
  sink.give(sender, now, answer(7, 2000));
  EXPECT_EQ(sink.reports.size(), 1u);
}

TEST_F(MdpccSender, ReflectsNoMoreReportsInAGrttThanTheBound) {
  now = now + ms(100);
  for (std::uint32_t id = 1; id <= 5; ++id) sink.give(sender, now, answer(id, 1000));
  ASSERT_EQ(sender.representatives().size(), 5u);
  for (int i = 0; i < 1500; ++i) sink.give(sender, now, answer(7, 2000));  // never one of them
  EXPECT_EQ(sink.reports.size(), 1000u);
  for (const Time then = now; now - then < ms(1000);) tick();
  now = now + ms(100);
  sink.give(sender, now, answer(7, 2000));
  EXPECT_EQ(sink.reports.size(), 1001u);
}

TEST_F(MdpccSender, RefusesForgedReports) {
  now = now + ms(100);
  wire::MdpccReport report = answer(7, 2000);
  ++report.probe_seq;  // a probe that was not sent
  sink.give(sender, now, report);
  report = answer(7, 2000);
  report.probe_seq = static_cast<std::uint16_t>(report.probe_seq - 1);
  sink.give(sender, now, report);
  report = answer(7, 2000);
  --report.response_us;  // before its probe
  sink.give(sender, now, report);
  report = answer(7, 2000);
  report.response_us += 100'001;  // from the future
  sink.give(sender, now, report);
  report = answer(7, 2000);
  report.session = 4;
  sink.give(sender, now, report);
  report = answer(7, 2000);
  report.reflected = true;  // a form that only senders use
  sink.give(sender, now, report);
  EXPECT_EQ(sender.invalid(), 2u);      // the last two
  EXPECT_EQ(sender.implausible(), 4u);  // those of a receiver that cannot have what it answers
  EXPECT_EQ(sender.representatives().size(), 0u);
}

TEST_F(MdpccSender, ALeavingClrIsReplaced) {
  now = now + ms(100);
  sink.give(sender, now, answer(7, 2000));
  sink.give(sender, now, answer(8, 4000));
  EXPECT_EQ(sender.representatives().clr()->id, 7u);
  wire::MdpccReport leave = answer(7, 2000);
  leave.flags |= wire::kMdpccLeave;
  sink.give(sender, now, leave);
  EXPECT_EQ(sender.representatives().clr()->id, 8u);
}

TEST_F(MdpccSender, StopsWithoutSubscribersAndStartsAgain) {
  EXPECT_GT(sink.rate, Rate::zero());
  sender.membership(now, -1, sink);
  EXPECT_EQ(sink.rate, Rate::zero());
  EXPECT_TRUE(sender.next_timer().is_never());
  sender.membership(now, 0, sink);
  EXPECT_GT(sink.rate, Rate::zero());
  EXPECT_FALSE(sender.next_timer().is_never());
}

class MdpccReceiver : public ::testing::Test {
 protected:
  void SetUp() override { receiver.start(now, sink); }
  void probe(bool listed, std::uint32_t tx_rate = 100'000) {
    wire::MdpccProbe probe;
    probe.session = 3;
    probe.probe_seq = ++probe_seq;
    probe.tx_time_us = 5000;
    probe.grtt_us = 100'000;
    probe.tx_rate = tx_rate;
    probe.group_size = 100;
    probe.backoff = 4;
    if (listed) {
      probe.record_count = 2;
      probe.representatives[0] = {7, 30'000, 1000, wire::kMdpccClr};
      probe.representatives[1] = {42, 50'000, 2000, 0};
    }
    sink.give(receiver, now, probe);
  }
  void data(unsigned packets, bool ce = false) {
    for (unsigned i = 0; i < packets; ++i) {
      wire::MdpccData data;
      data.session = 3;
      data.seq = seq++;
      sink.give(receiver, now = now + ms(10), data, ce);
    }
  }
  Receiver receiver{session()};
  Wire sink;
  Time now = Time::zero() + Duration::seconds(1);
  std::uint32_t seq = 0xfffffff0;
  std::uint16_t probe_seq = 0xfffe;
};

TEST_F(MdpccReceiver, ARepresentativeAnswersEachProbeAtOnce) {
  data(100);
  for (int i = 1; i <= 3; ++i) {
    probe(true);
    ASSERT_EQ(sink.reports.size(), static_cast<std::size_t>(i));
    EXPECT_EQ(sink.reports.back().probe_seq, probe_seq);
    EXPECT_EQ(sink.reports.back().response_us, 5000u);
    EXPECT_EQ(sink.reports.back().flags, wire::kMdpccRtt | wire::kMdpccStart);
    EXPECT_EQ(sink.reports.back().rtt_us, 50'000u);
    EXPECT_NEAR(sink.reports.back().rate, 200'000, 1);  // twice 1000 B in 10 ms
  }
}

TEST_F(MdpccReceiver, OthersWaitAndSayHowLong) {
  probe(false);
  EXPECT_TRUE(sink.reports.empty());
  const Time at = receiver.next_timer();
  EXPECT_LE(at, now + ms(400));
  receiver.timer(at, sink);
  ASSERT_EQ(sink.reports.size(), 1u);
  EXPECT_EQ(sink.reports[0].response_us, 5000u + (at - now).us());
  // Then silence for K GRTTs and until the next probe.
  EXPECT_EQ(receiver.next_timer(), at + ms(400));
  probe(false);
  EXPECT_EQ(receiver.next_timer(), at + ms(400));
  receiver.timer(at + ms(400), sink);
  EXPECT_TRUE(receiver.next_timer().is_never());
  probe(false);
  EXPECT_FALSE(receiver.next_timer().is_never());
}

TEST_F(MdpccReceiver, ALowerReportSilencesAHigherOne) {
  data(100);
  probe(false);
  wire::MdpccReport heard;
  heard.session = 3;
  heard.reflected = true;
  heard.source = 8;
  heard.rate = 300'000;  // own: 200,000
  const Time at = receiver.next_timer();
  sink.give(receiver, now, heard);
  EXPECT_EQ(receiver.next_timer(), at);
  heard.flags = wire::kMdpccRtt;  // a receiver that knows its RTT does not suppress one that does
                                  // not
  heard.rate = 1000;
  sink.give(receiver, now, heard);
  EXPECT_EQ(receiver.next_timer(), at);
  heard.flags = 0;
  sink.give(receiver, now, heard);
  EXPECT_EQ(receiver.next_timer(), now + ms(400));
  receiver.timer(receiver.next_timer(), sink);
  EXPECT_TRUE(sink.reports.empty());
}

TEST_F(MdpccReceiver, ALossEventIsToldAtOnceAndEndsSlowStart) {
  probe(true);
  data(20);
  ++seq;
  data(1);
  ASSERT_EQ(sink.reports.size(), 2u);
  const wire::MdpccReport& report = sink.reports.back();
  EXPECT_EQ(report.flags, wire::kMdpccRtt | wire::kMdpccEvent);
  // The interval before is the one that TCP would have had at the received rate of 100 kB/s with an
  // RTT of 50 ms (PROTOCOLS 1.3). So the rate asked for is that rate.
  EXPECT_NEAR(report.rate, 100'000, 2'000);
  TcpPath path;
  path.rtt = ms(50);
  path.timeout = ms(200);
  EXPECT_NEAR(report.loss / 4294967295.0, tcp_loss_event_rate(path, bps(100'000)), 1e-3);
}

TEST_F(MdpccReceiver, MarksAreLossEventsIfAsked) {
  data(50);
  probe(true);
  data(1, true);
  ASSERT_EQ(sink.reports.size(), 2u);
  EXPECT_GT(sink.reports.back().loss, 0u);
  EXPECT_EQ(receiver.counters().lost, 0u);
  EXPECT_EQ(receiver.counters().marked, 1u);

  SessionConfig config = session();
  config.parameters.set("mdpcc.ecn=0");
  Receiver deaf(config);
  Wire other;
  deaf.start(now, other);
  wire::MdpccData data;
  data.session = 3;
  for (data.seq = 0; data.seq < 50; ++data.seq) other.give(deaf, now, data, true);
  wire::MdpccProbe probe;
  probe.session = 3;
  probe.record_count = 1;
  probe.representatives[0].receiver = 42;
  other.give(deaf, now, probe);
  ASSERT_EQ(other.reports.size(), 1u);
  EXPECT_EQ(other.reports[0].loss, 0u);
}

TEST_F(MdpccReceiver, SaysGoodbye) {
  EXPECT_EQ(sink.joined, 1);
  probe(false);
  receiver.stop(now, sink);
  EXPECT_EQ(sink.joined, 0);
  ASSERT_EQ(sink.reports.size(), 1u);
  EXPECT_NE(sink.reports[0].flags & wire::kMdpccLeave, 0);
  EXPECT_TRUE(receiver.next_timer().is_never());
}

TEST(MdpccSettings, NameWhatIsWrong) {
  const Scheme& scheme = find_scheme("mdpcc");
  const auto fails = [&](auto change, std::string_view name) {
    SessionConfig config = session();
    change(config);
    try {
      scheme.make_sender(config);
      ADD_FAILURE() << name;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  fails([](SessionConfig& c) { c.layers = 2; }, "layers");
  fails([](SessionConfig& c) { c.packet_size = 99; }, "packet_size");
  fails([](SessionConfig& c) { c.session = 32768; }, "session");
  fails(
      [](SessionConfig& c) {
        c.parameters.set("mdpcc.max_rate=1Mbit/s");
        c.parameters.set("mdpcc.initial_rate=2Mbit/s");
      },
      "mdpcc.initial_rate");
}

}  // namespace
}  // namespace tiercast::mdpcc
