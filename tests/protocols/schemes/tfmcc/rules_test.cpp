// TFMCC's cores, one rule at a time (RFC 4654; PROTOCOLS 8).
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "protocols/common/tcp_equation.h"
#include "protocols/schemes/tfmcc/feedback_timer.h"
#include "protocols/schemes/tfmcc/receiver.h"
#include "protocols/schemes/tfmcc/sender.h"
#include "tests/protocols/rigs/recording_sink.h"

namespace tiercast::tfmcc {
namespace {

using Bytes = std::vector<std::byte>;
using Kind = wire::TfmccFeedback::Kind;

SessionConfig config(const std::vector<std::string>& set = {}) {
  return core_config("tfmcc", SessionConfig().layers, set);
}

Bytes pack(const wire::TfmccData& data) {
  Bytes bytes(972);
  EXPECT_GT(wire::write(data, bytes), 0u);
  return bytes;
}

Bytes pack(const wire::TfmccFeedback& feedback) {
  Bytes bytes(wire::TfmccFeedback::kBytes);
  EXPECT_GT(wire::write(feedback, bytes), 0u);
  return bytes;
}

// PROTOCOLS 8, with N = 10000.
TEST(TfmccTimer, ThePapersValues) {
  const Duration t = Duration::seconds(1);
  EXPECT_NEAR(plain_wait(t, 10000, 1e-4).seconds(), 0, 1e-9);
  EXPECT_NEAR(plain_wait(t, 10000, 0.01).seconds(), 0.5, 1e-3);
  EXPECT_NEAR(plain_wait(t, 10000, 0.5).seconds(), 0.925, 1e-3);
  EXPECT_NEAR(plain_wait(t, 10000, 1).seconds(), 1, 1e-9);
  EXPECT_EQ(plain_wait(t, 10000, 1e-9), Duration::zero());
  // The bias: a quarter of the round between half the sender's rate and nine tenths of it.
  EXPECT_NEAR(biased_wait(t, 10000, 1, 0.3).seconds(), 0.75, 1e-9);
  EXPECT_NEAR(biased_wait(t, 10000, 1, 0.7).seconds(), 0.875, 1e-9);
  EXPECT_NEAR(biased_wait(t, 10000, 1, 2).seconds(), 1, 1e-9);
}

TEST(TfmccWire, RoundTripsAndRefusesInOrder) {
  wire::TfmccData data;
  data.session = 9;
  data.clr_valid = true;
  data.echo_valid = true;
  data.seq = 0xfffffffe;
  data.tx_time_us = 1;
  data.fb_round = 0xffff;
  data.rate = 2;
  data.supp_rate = 3;
  data.supp_rate_blind = 4;
  data.max_rtt_us = 5;
  data.clr = 6;
  data.echo_source = 7;
  data.echo_time_us = 8;
  data.echo_hold_us = 9;
  Bytes bytes = pack(data);
  wire::TfmccData read;
  ASSERT_EQ(wire::parse(bytes, read), wire::Error::kOk);
  EXPECT_TRUE(read.clr_valid);
  EXPECT_FALSE(read.slow_start);
  EXPECT_TRUE(read.echo_valid);
  EXPECT_EQ(read.seq, 0xfffffffe);
  EXPECT_EQ(read.tx_time_us, 1u);
  EXPECT_EQ(read.fb_round, 0xffff);
  EXPECT_EQ(read.rate, 2u);
  EXPECT_EQ(read.supp_rate, 3u);
  EXPECT_EQ(read.supp_rate_blind, 4u);
  EXPECT_EQ(read.max_rtt_us, 5u);
  EXPECT_EQ(read.clr, 6u);
  EXPECT_EQ(read.echo_source, 7u);
  EXPECT_EQ(read.echo_time_us, 8u);
  EXPECT_EQ(read.echo_hold_us, 9u);
  bytes[9] = std::byte{2};
  EXPECT_EQ(wire::parse(bytes, read), wire::Error::kRecord);
  bytes[23] = std::byte{1};
  EXPECT_EQ(wire::parse(bytes, read), wire::Error::kReserved);
  EXPECT_EQ(wire::parse(std::span(bytes).first(55), read), wire::Error::kShort);

  wire::TfmccFeedback feedback{9, Kind::kReport, true, false, 1, 2, 3, 4, 5, 6, 7, 8};
  Bytes small = pack(feedback);
  wire::TfmccFeedback back;
  ASSERT_EQ(wire::parse(small, back), wire::Error::kOk);
  EXPECT_TRUE(back.have_rtt);
  EXPECT_FALSE(back.have_loss);
  EXPECT_EQ(back.source, 1u);
  EXPECT_EQ(back.fb_round, 2u);
  EXPECT_EQ(back.rate, 3u);
  EXPECT_EQ(back.time_us, 4u);
  EXPECT_EQ(back.echo_time_us, 5u);
  EXPECT_EQ(back.echo_hold_us, 6u);
  EXPECT_EQ(back.loss_event_rate, 7u);
  EXPECT_EQ(back.rtt_us, 8u);
  small.push_back(std::byte{0});
  EXPECT_EQ(wire::parse(small, back), wire::Error::kLength);
  small.pop_back();
  small[8] = std::byte{0};
  EXPECT_EQ(wire::parse(small, back), wire::Error::kType);
}

// A receiver 30 ms from a sender of 100 packets a second, whose clock is 1000 s ahead and wraps.
class TfmccReceiver : public testing::Test {
 protected:
  explicit TfmccReceiver(const std::vector<std::string>& set = {}) : receiver_(config(set)) {
    receiver_.start(now_, sink_);
    data_.session = 9;
    data_.seq = 0xffffffc0;
    data_.rate = 100'000;
    data_.max_rtt_us = 500'000;
  }
  void packet() {
    now_ = now_ + Duration::milliseconds(10);
    data_.tx_time_us =
        static_cast<std::uint32_t>((now_ - Time::zero()).us() - delay_us_) + 4'294'000'000u;
    receiver_.receive(now_, {pack(data_), 1000, false, 1}, sink_);
    ++data_.seq;
    if (receiver_.next_timer() <= now_) receiver_.timer(now_, sink_);
  }
  void packets(int n) {
    while (n-- > 0) packet();
  }
  void loss() {
    ++data_.seq;
    packet();
  }
  // A loss event in every 11 packets: at an RTT of 100 ms good for a fifth of the sender's rate.
  void lossy(int n) {
    for (; n > 0; n -= 10) {
      packets(9);
      loss();
    }
  }
  // An echo of a report that left `rtt_ms` ago, of which the sender held it 4 ms.
  void echo(std::int64_t rtt_ms) {
    data_.echo_valid = true;
    data_.echo_source = 77;
    data_.echo_hold_us = 4'000;
    data_.echo_time_us =
        static_cast<std::uint32_t>((now_ - Time::zero()).us() + 10'000 - 4'000 - rtt_ms * 1000);
    packet();
    data_.echo_valid = false;
  }
  wire::TfmccFeedback last() const {
    wire::TfmccFeedback feedback;
    EXPECT_EQ(wire::parse(sink_.sent.back(), feedback), wire::Error::kOk);
    return feedback;
  }

  RecordingSink sink_;
  Time now_ = Time::zero() + Duration::seconds(50);
  std::int64_t delay_us_ = 30'000;
  wire::TfmccData data_;
  Receiver receiver_;
};

TEST_F(TfmccReceiver, BeforeALossItAsksForTwiceWhatItReceives) {
  packets(300);
  EXPECT_NEAR(receiver_.calculated().bytes_per_second(), 200'000, 1);
  EXPECT_EQ(receiver_.loss_event_rate(), 0);
}

TEST_F(TfmccReceiver, TheRttIsMeasuredByEchoAndMovedByOneWayDelay) {
  packets(10);
  EXPECT_FALSE(receiver_.have_rtt());
  EXPECT_EQ(receiver_.rtt(), Duration::milliseconds(500));  // R_max
  echo(60);
  ASSERT_TRUE(receiver_.have_rtt());
  EXPECT_NEAR(receiver_.rtt().seconds(), 0.060, 1e-6);
  packets(50);
  EXPECT_NEAR(receiver_.rtt().seconds(), 0.060, 1e-5);
  delay_us_ += 40'000;  // a queue on the way down
  packets(200);
  EXPECT_NEAR(receiver_.rtt().seconds(), 0.100, 1e-3);
  echo(120);  // not the CLR: half of the new sample
  EXPECT_NEAR(receiver_.rtt().seconds(), 0.110, 2e-3);
}

TEST_F(TfmccReceiver, ALossSetsTheRateToTheEquations) {
  packets(5);
  echo(60);
  loss();
  // The first interval is that of half the received rate (PROTOCOLS 8).
  const TcpPath path{
      .packet_size = 1000, .rtt = receiver_.rtt(), .timeout = receiver_.rtt() * 4, .clamp = false};
  EXPECT_NEAR(receiver_.calculated().bytes_per_second(), 50'000, 500);
  EXPECT_NEAR(tcp_throughput(path, receiver_.loss_event_rate()).bytes_per_second(),
              receiver_.calculated().bytes_per_second(), 1);
}

// The other way round, R is 500 ms at first, and the first interval is corrected when R is known.
TEST_F(TfmccReceiver, TheFirstIntervalIsCorrectedWithTheRtt) {
  packets(6);
  loss();
  EXPECT_NEAR(receiver_.calculated().bytes_per_second(), 50'000, 500);
  echo(60);
  EXPECT_NEAR(receiver_.calculated().bytes_per_second(), 50'000, 500);
}

TEST_F(TfmccReceiver, TheClrReportsOnceAnRttAndAtALossEvent) {
  packets(20);
  echo(100);
  data_.clr_valid = true;
  data_.clr = 77;
  data_.supp_rate = 1;  // the CLR is never suppressed
  sink_.sent.clear();
  packets(100);
  EXPECT_NEAR(static_cast<double>(sink_.sent.size()), 10, 1);
  const std::size_t before = sink_.sent.size();
  packets(3);
  loss();
  EXPECT_GT(sink_.sent.size(), before);
  EXPECT_TRUE(last().have_loss);
  EXPECT_NEAR(last().rtt_us, 100'000, 2000);
  receiver_.stop(now_, sink_);
  EXPECT_EQ(last().kind, Kind::kLeave);
}

TEST_F(TfmccReceiver, OthersReportOnceARoundIfTheirRateIsLower) {
  packets(20);
  echo(100);
  packets(20);
  data_.clr_valid = true;
  data_.clr = 5;
  lossy(400);
  ASSERT_LT(receiver_.calculated().bytes_per_second(), 50'000);
  sink_.sent.clear();
  ++data_.fb_round;
  lossy(500);
  ASSERT_EQ(sink_.sent.size(), 1u);  // T is 6 R_max = 3 s
  EXPECT_EQ(last().fb_round, data_.fb_round);
  EXPECT_TRUE(last().have_rtt);
  ++data_.fb_round;
  data_.rate = 1'000;  // now the sender is slower than we are
  lossy(1000);
  EXPECT_EQ(sink_.sent.size(), 1u);
}

TEST_F(TfmccReceiver, SomebodyElsesLowerReportSuppresses) {
  packets(20);
  echo(100);
  packets(20);
  data_.clr_valid = true;
  data_.clr = 5;
  lossy(400);
  sink_.sent.clear();
  const auto own = static_cast<std::uint32_t>(receiver_.calculated().bytes_per_second());
  ++data_.fb_round;
  data_.supp_rate_blind = 1;  // of one who does not know its RTT: says nothing to us
  packet();
  data_.supp_rate = own + own / 20;  // 5 % above ours is near enough (g = 0.1)
  lossy(500);
  EXPECT_TRUE(sink_.sent.empty());
  ++data_.fb_round;
  data_.supp_rate = own * 2;
  lossy(500);
  EXPECT_EQ(sink_.sent.size(), 1u);
}

TEST_F(TfmccReceiver, WithoutAnRttItReportsToGetOne) {
  data_.clr_valid = true;
  data_.clr = 5;
  packets(500);
  ASSERT_EQ(sink_.sent.size(), 1u);
  EXPECT_FALSE(last().have_rtt);
}

class TfmccSource : public testing::Test {
 protected:
  explicit TfmccSource(const std::vector<std::string>& set = {}) : sender_(config(set)) {
    sender_.start(now_, sink_);
    sender_.membership(now_, 0, sink_);
  }
  wire::TfmccData header() {
    Bytes message(972);
    EXPECT_GT(sender_.write_data(now_, 0, message), 0u);
    wire::TfmccData data;
    EXPECT_EQ(wire::parse(message, data), wire::Error::kOk);
    return data;
  }
  void run(double seconds) {
    const Time end = now_ + Duration::seconds(seconds);
    while (now_ < end) {
      now_ = now_ + Duration::milliseconds(10);
      if (sender_.next_timer() <= now_) sender_.timer(now_, sink_);
    }
  }
  struct Report {
    double rate;
    double rtt = 0.1;  // s, as the sender measures it
    bool have_rtt = true;
    bool have_loss = true;
    double used_rtt = 0.1;  // s, in the equation
  };
  void report(std::uint32_t from, const Report& r) {
    wire::TfmccFeedback feedback;
    feedback.session = 9;
    feedback.have_rtt = r.have_rtt;
    feedback.have_loss = r.have_loss;
    feedback.source = from;
    feedback.fb_round = fb_round_ ? *fb_round_ : header().fb_round;
    feedback.rate = static_cast<std::uint32_t>(r.rate);
    feedback.time_us = 123;
    feedback.echo_time_us = static_cast<std::uint32_t>(now_.ns() / 1000 - std::lround(r.rtt * 1e6));
    feedback.rtt_us = static_cast<std::uint32_t>(r.used_rtt * 1e6);
    sender_.receive(now_, {pack(feedback), 72, false, from}, sink_);
  }
  double rate() const { return sender_.rate().bytes_per_second(); }

  std::optional<std::uint16_t> fb_round_;  // of reports; else the present one
  RecordingSink sink_;
  // The clock's 32 bits of microseconds wrap 2 s later.
  Time now_ = Time::nanoseconds(((1ll << 32) - 2'000'000) * 1000);
  Sender sender_;
};

TEST_F(TfmccSource, BeginsWithAPacketPerInitialRtt) {
  EXPECT_DOUBLE_EQ(rate(), 2'000);
  EXPECT_TRUE(header().slow_start);
  EXPECT_FALSE(header().clr_valid);
  EXPECT_EQ(header().max_rtt_us, 500'000u);
  EXPECT_EQ(sender_.round_length(), Duration::seconds(3));  // 6 R_max
}

TEST_F(TfmccSource, SlowStartRisesToTwiceTheReceivedRateWithinAnRtt) {
  run(2);
  report(5, {.rate = 4'000, .have_loss = false});
  EXPECT_DOUBLE_EQ(rate(), 4'000);
  EXPECT_TRUE(sender_.slow_start());
  EXPECT_EQ(sender_.clr(), 5u);
  run(0.25);  // half of R_max
  report(5, {.rate = 8'000, .have_loss = false});
  EXPECT_NEAR(rate(), 6'000, 100);
  report(6, {.rate = 5'000, .have_loss = false});  // a lower one is the CLR
  EXPECT_EQ(sender_.clr(), 6u);
  EXPECT_NEAR(rate(), 5'000, 1);
  report(7, {.rate = 3'000});  // a loss ends it
  EXPECT_FALSE(sender_.slow_start());
  EXPECT_EQ(sender_.clr(), 7u);
  EXPECT_NEAR(rate(), 3'000, 1);
}

TEST_F(TfmccSource, DownAtOnceUpByAPacketPerRmax) {
  run(1);
  report(5, {.rate = 2'000});
  run(1);
  report(5, {.rate = 100'000, .rtt = 0.2});
  EXPECT_NEAR(rate(), 2'000 + 1'000 / 0.5, 1);  // s / R_max, once in R_max
  run(0.1);
  report(5, {.rate = 100'000, .rtt = 0.2});
  EXPECT_NEAR(rate(), 4'000 + 0.2 * 2'000, 50);
  report(5, {.rate = 1'000});
  EXPECT_DOUBLE_EQ(rate(), 1'000);
}

TEST_F(TfmccSource, ALowerReportChangesTheClrAHigherOneDoesNot) {
  run(1);
  report(5, {.rate = 2'000});
  report(6, {.rate = 3'000});
  EXPECT_EQ(sender_.clr(), 5u);
  EXPECT_DOUBLE_EQ(rate(), 2'000);
  report(6, {.rate = 1'500});
  EXPECT_EQ(sender_.clr(), 6u);
  EXPECT_DOUBLE_EQ(rate(), 1'500);
  EXPECT_EQ(header().clr, 6u);
}

// A rate that was computed with R_max = 500 ms is five times too low at 100 ms (RFC 4654, 3.3).
TEST_F(TfmccSource, ARateWithoutRttIsCorrectedWithTheSenders) {
  run(1);
  report(5, {.rate = 400, .rtt = 0.1, .have_rtt = false, .used_rtt = 0.5});
  EXPECT_NEAR(rate(), 2'000, 1);
  report(6, {.rate = 300, .rtt = 0.1, .have_rtt = false, .used_rtt = 0.5});
  EXPECT_NEAR(rate(), 1'500, 1);
  EXPECT_EQ(sender_.clr(), 6u);
}

TEST_F(TfmccSource, TheLowestReportOfTheRoundIsPassedOn) {
  run(1);
  EXPECT_EQ(header().supp_rate, wire::TfmccData::kNoRate);
  report(5, {.rate = 2'000});  // it becomes CLR by this, and counts all the same
  EXPECT_EQ(header().supp_rate, 2'000u);
  report(6, {.rate = 2'500});
  EXPECT_EQ(header().supp_rate, 2'000u);
  report(5, {.rate = 1'000});  // as the CLR it does not
  EXPECT_EQ(header().supp_rate, 2'000u);
  report(7, {.rate = 1'900, .have_rtt = false});
  EXPECT_EQ(header().supp_rate, 2'000u);
  EXPECT_EQ(header().supp_rate_blind, 1'900u);
  const std::uint16_t round = header().fb_round;
  while (header().fb_round == round) run(0.01);
  EXPECT_EQ(header().supp_rate, wire::TfmccData::kNoRate);
}

TEST_F(TfmccSource, ARoundLastsUntilFeedbackButNotTwice) {
  const std::uint16_t round = header().fb_round;
  run(5.9);
  EXPECT_EQ(header().fb_round, round);  // 2T without a word
  run(0.2);
  EXPECT_NE(header().fb_round, round);
  run(4);  // T is over
  const std::uint16_t second = header().fb_round;
  report(5, {.rate = 2'000});
  EXPECT_NE(header().fb_round, second);
}

TEST_F(TfmccSource, RmaxRisesAtOnceAndDecaysByRounds) {
  run(1);
  report(5, {.rate = 2'000, .rtt = 0.8});
  EXPECT_EQ(sender_.max_rtt(), Duration::milliseconds(800));
  std::uint16_t round = header().fb_round;
  while (header().fb_round == round) run(0.01);
  EXPECT_NEAR(sender_.max_rtt().seconds(), 0.8, 1e-9);  // R_peak
  report(5, {.rate = 2'000, .rtt = 0.1});
  report(6, {.rate = 2'000, .rtt = 0.1});
  round = header().fb_round;
  while (header().fb_round == round) run(0.01);
  EXPECT_NEAR(sender_.max_rtt().seconds(), 0.72, 1e-9);
}

// RFC 4654, 2.2.1: a new CLR, then who has no RTT, then others, then the CLR; one a packet.
TEST_F(TfmccSource, EchoesTheMostUrgentReportWithItsHoldingTime) {
  run(1);
  report(5, {.rate = 2'000});
  wire::TfmccData data = header();
  ASSERT_TRUE(data.echo_valid);
  EXPECT_EQ(data.echo_source, 5u);
  EXPECT_EQ(data.echo_time_us, 123u);
  EXPECT_EQ(data.echo_hold_us, 0u);
  EXPECT_FALSE(header().echo_valid);
  fb_round_ = data.fb_round;
  report(5, {.rate = 2'000});
  report(6, {.rate = 2'600});
  report(7, {.rate = 2'500});
  report(8, {.rate = 2'800, .have_rtt = false});
  report(9, {.rate = 2'700});
  run(0.02);
  data = header();
  EXPECT_EQ(data.echo_source, 8u);
  EXPECT_EQ(data.echo_hold_us, 20'000u);
  report(5, {.rate = 2'000});
  report(6, {.rate = 2'600});
  report(7, {.rate = 2'500});
  EXPECT_EQ(header().echo_source, 7u);
}

TEST_F(TfmccSource, ASilentClrHalvesTheRateAndIsGoneAfterTenRtts) {
  run(1);
  report(5, {.rate = 2'000});
  run(1);
  for (int i = 0; i < 40; ++i) {
    report(5, {.rate = 40'000, .rtt = 0.5});
    run(0.5);
  }
  ASSERT_NEAR(rate(), 40'000, 1);
  report(5, {.rate = 40'000, .rtt = 0.5});
  run(1.9);
  EXPECT_NEAR(rate(), 40'000, 1);
  run(0.2);  // 4 R_max
  EXPECT_NEAR(rate(), 20'000, 1);
  EXPECT_TRUE(sender_.clr_valid());
  run(4.2);  // 10 R_max are over at the next look
  EXPECT_FALSE(sender_.clr_valid());
  EXPECT_FALSE(header().clr_valid);
  run(2000);
  EXPECT_NEAR(rate(), 1'000.0 / 64, 1e-9);
  report(6, {.rate = 40'000, .rtt = 0.5});
  EXPECT_EQ(sender_.clr(), 6u);
}

TEST_F(TfmccSource, TheClrsFarewellAsksEverybody) {
  run(1);
  report(5, {.rate = 2'000});
  const std::uint16_t round = header().fb_round;
  wire::TfmccFeedback leave;
  leave.session = 9;
  leave.kind = Kind::kLeave;
  leave.source = 6;
  sender_.receive(now_, {pack(leave), 72, false, 6}, sink_);
  EXPECT_TRUE(sender_.clr_valid());
  leave.source = 5;
  sender_.receive(now_, {pack(leave), 72, false, 5}, sink_);
  EXPECT_FALSE(sender_.clr_valid());
  EXPECT_NE(header().fb_round, round);
  report(6, {.rate = 9'000});
  EXPECT_EQ(sender_.clr(), 6u);
  EXPECT_LE(rate(), 2'000 + 1'000 / 0.5 + 1);  // no jump upwards
}

TEST_F(TfmccSource, AnImpossibleEchoIsRefused) {
  run(1);
  report(5, {.rate = 2'000, .rtt = -0.001});
  report(5, {.rate = 2'000, .rtt = 11});
  EXPECT_EQ(sender_.invalid(), 2u);
  EXPECT_FALSE(sender_.clr_valid());
}

TEST(TfmccSettings, OneLayerOnly) {
  SessionConfig c = config();
  c.layers = 2;
  EXPECT_THROW(Receiver{c}, ConfigError);
}

}  // namespace
}  // namespace tiercast::tfmcc
