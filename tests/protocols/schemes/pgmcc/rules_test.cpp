// PGMCC's rules one by one: the equation, the window, the loss filter, the messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "protocols/core/registry.h"
#include "protocols/schemes/pgmcc/receiver.h"
#include "protocols/schemes/pgmcc/sender.h"

namespace tiercast::pgmcc {

struct LongRun {
  // As if so many packets had left and been acknowledged, in pieces no longer than an
  // acknowledgement's.
  static void pass(Window& window, std::uint64_t packets) {
    for (constexpr std::uint32_t kMost = 1 << 16; packets > 0;) {
      const auto some = static_cast<std::uint32_t>(std::min<std::uint64_t>(packets, kMost));
      window.next_ += some;
      window.base_ += some;
      window.top_ += some;
      packets -= some;
      window.acknowledge(window.send(), 1);
    }
  }
};

namespace {

SessionConfig config_with(const std::vector<std::string>& set = {}) {
  SessionConfig config;
  config.session = 3;
  config.parameters = Parameters(parameter_list());
  for (const std::string& assignment : set) config.parameters.set(assignment);
  return config;
}

TEST(Pgmcc, SlownessHasTheValuesOfTheDraft) {  // PROTOCOLS 9
  EXPECT_NEAR(slowness(0.1, 0.01), 0.010903, 1e-6);
  EXPECT_NEAR(slowness(0.2, 0.01), 0.021806, 1e-6);
  EXPECT_NEAR(slowness(0.1, 0.02), 0.016720, 1e-6);
  EXPECT_EQ(slowness(0.5, 0), 0);
}

TEST(Pgmcc, TheLossFilterForgetsFiveHundredOf65536) {
  EXPECT_NEAR(Settings::from(config_with()).loss_constant, 0.99237, 1e-5);
}

// Acknowledges all packets below `top`.
std::uint32_t all = 0xffffffff;

TEST(PgmccWindow, GrowsByOnePerPacketToSsthreshAndThenByOnePerRoundTrip) {
  Window window(Settings::from(config_with()), 100);
  EXPECT_EQ(window.sendable(), 1u);
  EXPECT_EQ(window.send(), 100u);
  EXPECT_EQ(window.sendable(), 0u);
  window.acknowledge(100, 1);
  EXPECT_DOUBLE_EQ(window.w(), 2);
  EXPECT_DOUBLE_EQ(window.tokens(), 2);  // two tokens for one packet
  for (int i = 0; i < 2; ++i) window.send();
  window.acknowledge(102, all);
  EXPECT_DOUBLE_EQ(window.w(), 4);  // ssthresh
  EXPECT_DOUBLE_EQ(window.tokens(), 4);
  for (int i = 0; i < 4; ++i) window.send();
  window.acknowledge(106, all);
  EXPECT_DOUBLE_EQ(window.w(), 5);
  EXPECT_DOUBLE_EQ(window.tokens(), 5);
  EXPECT_EQ(window.acknowledge(106, all).acked, 0u);  // again: nothing new
  EXPECT_DOUBLE_EQ(window.w(), 5);
}

TEST(PgmccWindow, ALossHalvesItOnceUntilFeedbackForWhatLeftLater) {
  Window window(Settings::from(config_with()), 0xfffffff0);  // numbers wrap
  std::uint32_t seq = 0xfffffff0;
  while (window.w() < 10) {
    const std::uint32_t n = window.sendable();
    for (std::uint32_t i = 0; i < n; ++i) seq = window.send();
    window.acknowledge(seq, all);
  }
  const double before = window.w();
  const std::uint32_t n = window.sendable();
  ASSERT_GE(n, 10u);
  const std::uint32_t first = window.send();
  for (std::uint32_t i = 1; i < n; ++i) seq = window.send();
  // `first` is missing. Two later packets do not prove a loss, three do.
  EXPECT_FALSE(window.acknowledge(first + 2, ~(1u << 2)).cut);
  const double grown = window.w();
  EXPECT_GT(grown, before);
  const double tokens = window.tokens();
  const Window::Outcome outcome = window.acknowledge(first + 3, ~(1u << 3));
  EXPECT_TRUE(outcome.cut);
  EXPECT_EQ(outcome.lost, 1u);
  EXPECT_DOUBLE_EQ(window.w(), grown / 2);
  // T falls by W/2, and the acknowledged packet and the lost one are no longer under way.
  EXPECT_DOUBLE_EQ(window.tokens(), tokens - grown / 2 + 2);
  // first + 4 is lost too, but it left before the cut.
  const Window::Outcome again = window.acknowledge(first + 7, ~(1u << 7 | 1u << 3));
  EXPECT_EQ(again.lost, 1u);
  EXPECT_FALSE(again.cut);
  EXPECT_DOUBLE_EQ(window.w(), grown / 2);
  // Everything else arrives, and packets sent from then on make the window grow again: T plus the
  // packets under way make up W.
  window.acknowledge(seq, all);
  EXPECT_NEAR(window.tokens(), window.w(), 1);
  const std::uint32_t more = window.sendable();
  for (std::uint32_t i = 0; i < more; ++i) seq = window.send();
  window.acknowledge(seq, all);
  EXPECT_GT(window.w(), grown / 2);
}

TEST(PgmccWindow, ALossHalvesItAfterAnyNumberOfPackets) {
  Window window(Settings::from(config_with()), 100);
  window.acknowledge(window.send(), 1);
  LongRun::pass(window, (std::uint64_t{1} << 31) + 1'000'000);
  const double before = window.w();
  ASSERT_GT(before, 8);
  window.send();  // lost
  Window::Outcome outcome;
  for (std::uint32_t i = 1; i <= 3; ++i) outcome = window.acknowledge(window.send(), (1u << i) - 1);
  EXPECT_EQ(outcome.lost, 1u);
  EXPECT_TRUE(outcome.cut);
  EXPECT_LT(window.w(), before / 2 + 1);
}

TEST(PgmccWindow, StaysWithinItsBoundsWhateverIsAcknowledged) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Window window(Settings::from(config_with({"pgmcc.max_window=50"})), 0xffffff00);
    std::uint64_t sent = 0;
    for (int i = 0; i < 100'000; ++i) {
      while (window.sendable() > 0) {
        window.send();
        ++sent;
      }
      const std::uint32_t seq = window.next() - 1 - static_cast<std::uint32_t>(rng.below(40));
      if (window.recent(seq)) {
        window.acknowledge(seq, static_cast<std::uint32_t>(rng.next() | rng.next()));
      }
      if (rng.uniform() < 0.001) window.restart();
      ASSERT_GE(window.w(), 1);
      ASSERT_LE(window.w(), 50);
      ASSERT_GE(window.tokens(), -60);
      ASSERT_LE(window.tokens(), 50);
    }
    EXPECT_GT(sent, 1000u);
  }
}

class Spy : public Sink {
 public:
  void send(Destination, std::span<const std::byte> bytes) override {
    wire::PgmccFeedback feedback;
    if (wire::parse(bytes, feedback) == wire::Error::kOk) sent.push_back(feedback);
    wire::PgmccConfirmation confirmation;
    if (wire::parse(bytes, confirmation) == wire::Error::kOk) confirmed.push_back(confirmation);
  }
  void join(Rank) override {}
  void leave(Rank) override {}
  void set_rate(Rank, Rate) override {}
  void release(Rank, std::uint32_t packets) override { released += packets; }
  void deliver(std::uint64_t, std::span<const std::byte>) override {}
  void trace(std::string_view, std::span<const TraceField>) override {}
  std::vector<wire::PgmccFeedback> sent;
  std::vector<wire::PgmccConfirmation> confirmed;
  std::uint32_t released = 0;
};

void hand(Receiver& receiver, Spy& spy, std::uint32_t seq, std::uint32_t acker, double at,
          bool ce = false) {
  wire::PgmccData data;
  data.session = 3;
  data.seq = seq;
  data.has_acker = acker != 0;
  data.acker = acker;
  std::array<std::byte, 100> message{};
  wire::write(data, message);
  receiver.receive(Time::zero() + Duration::seconds(at), {message, 128, ce, 1}, spy);
}

TEST(PgmccReceiver, MeasuresLossAfterThreeLaterPackets) {
  SessionConfig config = config_with({"pgmcc.nak_backoff=0", "pgmcc.ecn=1"});
  config.self_id = 5;
  Receiver receiver(config);
  Spy spy;
  receiver.start(Time::zero(), spy);
  // 2^32 - 3 .. 3 with one hole give exactly one loss (PROTOCOLS 13.1).
  for (const std::uint32_t seq : {0xfffffffdu, 0xfffffffeu, 0u, 1u}) hand(receiver, spy, seq, 9, 1);
  EXPECT_EQ(receiver.loss(), 0);
  hand(receiver, spy, 2, 9, 1);  // now three packets have arrived after 0xffffffff
  EXPECT_NEAR(receiver.loss(), 500.0 / 65536, 1e-9);
  hand(receiver, spy, 3, 9, 1);
  EXPECT_EQ(receiver.counters().lost, 1u);
  ASSERT_EQ(spy.sent.size(), 1u);
  EXPECT_EQ(spy.sent[0].kind, wire::PgmccFeedback::Kind::kNak);
  EXPECT_EQ(spy.sent[0].missing, 0xffffffffu);
  // Late by two packets: no loss. Marked: a loss.
  for (const std::uint32_t seq : {5u, 6u, 4u, 7u, 8u, 9u, 10u, 11u}) hand(receiver, spy, seq, 9, 1);
  EXPECT_EQ(receiver.counters().lost, 1u);
  hand(receiver, spy, 12, 9, 1, true);
  for (const std::uint32_t seq : {13u, 14u, 15u}) hand(receiver, spy, seq, 9, 1);
  EXPECT_EQ(receiver.counters().lost, 2u);
}

TEST(PgmccReceiver, TheAckerAcknowledgesEachPacket) {
  SessionConfig config = config_with();
  config.self_id = 5;
  Receiver receiver(config);
  Spy spy;
  receiver.start(Time::zero(), spy);
  for (const std::uint32_t seq : {10u, 11u, 13u}) hand(receiver, spy, seq, 5, 1);
  ASSERT_EQ(spy.sent.size(), 3u);
  EXPECT_EQ(spy.sent[2].kind, wire::PgmccFeedback::Kind::kAck);
  EXPECT_EQ(spy.sent[2].rx_max, 13u);
  EXPECT_EQ(spy.sent[2].bitmap & 0xf, 0b1101u);
  receiver.stop(Time::zero() + Duration::seconds(2), spy);
  ASSERT_EQ(spy.sent.size(), 4u);
  EXPECT_EQ(spy.sent[3].kind, wire::PgmccFeedback::Kind::kLeaving);
}

TEST(PgmccReceiver, AConfirmationSuppressesItsNak) {
  SessionConfig config = config_with();
  config.self_id = 5;
  Receiver receiver(config);
  Spy spy;
  receiver.start(Time::zero(), spy);
  for (const std::uint32_t seq : {10u, 11u, 13u, 14u, 15u}) hand(receiver, spy, seq, 9, 1);
  ASSERT_FALSE(receiver.next_timer().is_never());
  std::array<std::byte, wire::PgmccConfirmation::kBytes> message{};
  wire::write(wire::PgmccConfirmation{3, 77, 12}, message);
  receiver.receive(Time::zero() + Duration::seconds(1), {message, 48, false, 1}, spy);
  EXPECT_TRUE(receiver.next_timer().is_never());
  EXPECT_EQ(receiver.naks_suppressed(), 1u);
  EXPECT_TRUE(spy.sent.empty());
}

TEST(PgmccReceiver, ANakOfAPacketThatComesAfterAllIsNotSent) {
  Receiver receiver(config_with());
  Spy spy;
  receiver.start(Time::zero(), spy);
  for (const std::uint32_t seq : {10u, 11u, 13u, 14u, 15u}) hand(receiver, spy, seq, 9, 1);
  ASSERT_FALSE(receiver.next_timer().is_never());
  hand(receiver, spy, 12, 9, 1);
  EXPECT_TRUE(receiver.next_timer().is_never());
  EXPECT_TRUE(spy.sent.empty());
}

// The sender refuses a NAK of somebody who lost nothing, and p may have become very small since.
TEST(PgmccReceiver, ANakSaysThatSomethingWasLost) {
  Receiver receiver(config_with({"pgmcc.loss_constant=0.5", "pgmcc.nak_backoff=10"}));
  Spy spy;
  receiver.start(Time::zero(), spy);
  hand(receiver, spy, 10, 9, 1);
  for (std::uint32_t seq = 12; seq < 112; ++seq) hand(receiver, spy, seq, 9, 1);
  ASSERT_LT(receiver.loss(), 0x1p-32);
  receiver.timer(receiver.next_timer(), spy);
  ASSERT_EQ(spy.sent.size(), 1u);
  EXPECT_EQ(spy.sent[0].missing, 11u);
  EXPECT_EQ(spy.sent[0].loss, 1u);
}

// A sender to which receivers report as each test says.
struct Election : ::testing::Test {
  explicit Election(const std::vector<std::string>& set = {}) : sender(config_with(set)) {
    sender.start(now, spy);
    sender.membership(now, 0, spy);
    leave();
  }
  void leave() {
    std::array<std::byte, 100> message{};
    for (; spy.released > 0; --spy.released) sender.write_data(now, 0, message);
    wire::PgmccData data;
    if (wire::parse(message, data) == wire::Error::kOk) last = data;
  }
  void report(std::uint32_t source, double rtt, double loss, wire::PgmccFeedback::Kind kind,
              std::uint32_t ahead = 0) {
    now = now + Duration::seconds(rtt);
    wire::PgmccFeedback f;
    f.session = 3;
    f.kind = kind;
    f.source = source;
    f.rx_max = last.seq + ahead;
    f.bitmap = kind == wire::PgmccFeedback::Kind::kNak ? 0xfffffffe : 0xffffffff;
    f.echo_time_us = static_cast<std::uint32_t>((now - Duration::seconds(rtt)).ns() / 1000);
    f.loss = static_cast<std::uint32_t>(loss * 0x1p32);
    f.missing = kind == wire::PgmccFeedback::Kind::kNak ? last.seq : 0;
    hand_in(f);
  }
  void acknowledge(std::uint32_t source, const wire::PgmccData& packet) {
    wire::PgmccFeedback f;
    f.session = 3;
    f.source = source;
    f.rx_max = packet.seq;
    f.bitmap = 1;
    f.echo_time_us = packet.tx_time_us;
    hand_in(f);
  }
  void hand_in(const wire::PgmccFeedback& feedback) {
    std::array<std::byte, wire::PgmccFeedback::kBytes> message{};
    wire::write(feedback, message);
    sender.receive(now, {message, 68, false, feedback.source}, spy);
    leave();
  }
  using Kind = wire::PgmccFeedback::Kind;
  Time now = Time::zero() + Duration::seconds(10);
  Spy spy;
  Sender sender;
  wire::PgmccData last;
};

TEST_F(Election, TheFirstDummyNakMakesTheAcker) {
  EXPECT_FALSE(last.has_acker);
  report(4, 0.1, 0, Kind::kDummyNak);
  EXPECT_TRUE(sender.has_acker());
  EXPECT_EQ(sender.acker(), 4u);
  EXPECT_TRUE(last.has_acker);
  EXPECT_EQ(last.acker, 4u);
  report(5, 0.1, 0, Kind::kDummyNak);
  EXPECT_EQ(sender.acker(), 4u);
}

TEST_F(Election, WhoIsSlowerThanThreeQuartersTakesOver) {
  report(4, 0.1, 0, Kind::kDummyNak);
  report(4, 0.1, 0.01, Kind::kAck);
  report(5, 0.1, 0.01, Kind::kNak);  // as slow as the acker
  EXPECT_EQ(sender.acker(), 4u);
  report(5, 0.13, 0.01, Kind::kNak);  // 0.1/0.13 = 0.77
  EXPECT_EQ(sender.acker(), 4u);
  report(5, 0.14, 0.01, Kind::kNak);  // 0.71 < C
  EXPECT_EQ(sender.acker(), 5u);
  report(4, 0.1, 0.05, Kind::kNak);
  EXPECT_EQ(sender.acker(), 4u);
  EXPECT_EQ(spy.confirmed.size(), 1u);  // one packet was named, so there is one confirmation
  EXPECT_EQ(sender.counts().switches, 3u);
}

TEST_F(Election, SilenceAndLeavingEndATerm) {
  report(4, 0.1, 0, Kind::kDummyNak);
  now = sender.next_timer();
  sender.timer(now, spy);
  leave();
  EXPECT_TRUE(sender.has_acker());
  EXPECT_DOUBLE_EQ(sender.window().w(), 1);
  now = sender.next_timer();
  sender.timer(now, spy);
  leave();
  EXPECT_FALSE(sender.has_acker());  // two time-outs in a row
  EXPECT_FALSE(last.has_acker);
  report(5, 0.1, 0, Kind::kDummyNak);
  EXPECT_EQ(sender.acker(), 5u);
  report(4, 0.1, 0, Kind::kLeaving);
  EXPECT_TRUE(sender.has_acker());  // 4 is no longer the acker
  report(5, 0.1, 0, Kind::kLeaving);
  EXPECT_FALSE(sender.has_acker());
  EXPECT_FALSE(last.has_acker);
}

TEST_F(Election, OthersAcknowledgementsAreRefused) {
  report(4, 0.1, 0, Kind::kDummyNak);
  const std::uint64_t invalid = sender.invalid();
  report(6, 0.1, 0, Kind::kAck);
  EXPECT_EQ(sender.invalid(), invalid + 1);
}

// Several may become the acker within a round trip; then the packets that named each of them are
// still under way.
TEST_F(Election, FormerAckersAcknowledgeThePacketsThatNamedThem) {
  report(4, 0.1, 0, Kind::kDummyNak);
  const wire::PgmccData named_4 = last;
  for (const std::uint32_t next : {5u, 6u, 7u}) report(next, 0.1, 0.01 * next * next, Kind::kNak);
  ASSERT_EQ(sender.acker(), 7u);
  ASSERT_EQ(sender.window().w(), 1);
  acknowledge(5, named_4);  // it was the acker, but not when this packet left
  acknowledge(8, named_4);  // it never was
  EXPECT_EQ(sender.invalid(), 2u);
  EXPECT_EQ(sender.window().w(), 1);
  acknowledge(4, named_4);
  EXPECT_EQ(sender.window().w(), 2);
  const wire::PgmccData named_7 = last;
  ASSERT_EQ(named_7.acker, 7u);
  report(7, 0.1, 0, Kind::kLeaving);
  ASSERT_FALSE(sender.has_acker());
  acknowledge(7, named_7);  // it was under way
  EXPECT_EQ(sender.invalid(), 2u);
  EXPECT_EQ(sender.implausible(), 0u);
}

// Whoever acknowledges what it cannot have is believed for the packet that it echoes alone.
TEST_F(Election, AnAcknowledgementCountsForWhatItsEchoProves) {
  report(4, 0.1, 0, Kind::kDummyNak);
  report(4, 0.1, 0, Kind::kAck);
  ASSERT_DOUBLE_EQ(sender.window().w(), 2);
  report(4, 0.1, 0, Kind::kAck, 16);  // two have left, at the same instant
  EXPECT_DOUBLE_EQ(sender.window().w(), 3);
  EXPECT_EQ(sender.implausible(), 1u);
  now = now + Duration::seconds(0.001);
  report(4, 0.099, 0, Kind::kAck, 16);  // none left 99 ms ago
  EXPECT_DOUBLE_EQ(sender.window().w(), 3);
  EXPECT_EQ(sender.implausible(), 2u);
  EXPECT_EQ(sender.invalid(), 0u);
}

TEST_F(Election, ReportsOfWhatWasNeverSentAreImplausible) {
  report(4, 0.1, 0, Kind::kDummyNak, 1);
  report(4, 0.1, 0.5, Kind::kNak, 1);
  EXPECT_EQ(sender.implausible(), 2u);
  EXPECT_FALSE(sender.has_acker());
}

// A NAK is of a packet that its source lacks, which therefore has lost something.
TEST_F(Election, ANakThatContradictsItselfIsImplausible) {
  report(4, 0.1, 0, Kind::kDummyNak);
  report(5, 0.1, 0, Kind::kNak);
  EXPECT_EQ(sender.implausible(), 1u);
  wire::PgmccFeedback f;
  f.session = 3;
  f.kind = Kind::kNak;
  f.source = 5;
  f.rx_max = f.missing = last.seq;
  f.bitmap = 1;
  f.echo_time_us = last.tx_time_us;
  f.loss = 0x80000000;
  hand_in(f);
  EXPECT_EQ(sender.implausible(), 2u);
  EXPECT_EQ(sender.acker(), 4u);
  EXPECT_TRUE(spy.confirmed.empty());
  f.bitmap = 0;
  hand_in(f);
  EXPECT_EQ(sender.implausible(), 2u);
  EXPECT_EQ(spy.confirmed.size(), 1u);
}

struct FewReflections : Election {
  FewReflections() : Election({"pgmcc.max_reflections=3"}) {}
};

TEST_F(FewReflections, ThereAreSoManyConfirmationsASecond) {
  report(4, 0.1, 0, Kind::kDummyNak);
  for (int i = 0; i < 20; ++i) {
    now = now + Duration::milliseconds(10);
    acknowledge(4, last);
  }
  wire::PgmccFeedback f;
  f.session = 3;
  f.kind = Kind::kNak;
  f.source = 5;
  f.rx_max = last.seq;
  f.echo_time_us = last.tx_time_us;
  f.loss = 1;
  for (f.missing = last.seq - 7; f.missing != last.seq; ++f.missing) hand_in(f);
  EXPECT_EQ(sender.implausible(), 0u);
  EXPECT_EQ(spy.confirmed.size(), 3u);
  now = now + Duration::seconds(1);
  f.missing = last.seq - 1;  // of which there was no room to speak
  hand_in(f);
  EXPECT_EQ(spy.confirmed.size(), 4u);
}

TEST(PgmccWire, WhatIsWrongIsNamed) {
  std::vector<std::byte> data(30), feedback(40), confirmation(20);
  ASSERT_EQ(wire::write(wire::PgmccData{}, data), 24u);
  wire::PgmccFeedback f;
  f.kind = wire::PgmccFeedback::Kind::kNak;
  f.missing = 5;
  f.loss = 0x80000000;
  ASSERT_EQ(wire::write(f, feedback), 40u);
  ASSERT_EQ(wire::write(wire::PgmccConfirmation{1, 2, 3}, confirmation), 20u);
  const auto error = [](std::vector<std::byte> m, std::size_t at, int value, auto out) {
    m[at] = static_cast<std::byte>(value);
    return std::string(wire::name(wire::parse(m, out)));
  };
  EXPECT_EQ(error(data, 0, 1, wire::PgmccData{}), "ok");
  EXPECT_EQ(error(data, 2, 3, wire::PgmccData{}), "scheme");
  EXPECT_EQ(error(data, 5, 25, wire::PgmccData{}), "length");
  EXPECT_EQ(error(data, 8, 2, wire::PgmccData{}), "reserved");
  EXPECT_EQ(error(data, 10, 1, wire::PgmccData{}), "reserved");
  EXPECT_EQ(error(feedback, 0, 1, wire::PgmccFeedback{}), "ok");
  EXPECT_EQ(error(feedback, 8, 5, wire::PgmccFeedback{}), "type");
  EXPECT_EQ(error(feedback, 8, 1, wire::PgmccFeedback{}), "record");
  EXPECT_EQ(error(confirmation, 0, 1, wire::PgmccConfirmation{}), "ok");
  EXPECT_EQ(error(confirmation, 8, 2, wire::PgmccConfirmation{}), "type");
  feedback.push_back({});
  EXPECT_EQ(error(feedback, 0, 1, wire::PgmccFeedback{}), "length");
  feedback.resize(39);
  EXPECT_EQ(error(feedback, 0, 1, wire::PgmccFeedback{}), "short");
}

}  // namespace
}  // namespace tiercast::pgmcc
