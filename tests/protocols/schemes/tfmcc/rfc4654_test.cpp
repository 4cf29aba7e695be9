// RFC 4654 rule by rule: each test is named after the section whose text its numbers are computed
// from.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "protocols/common/loss_history.h"
#include "protocols/common/tcp_equation.h"
#include "protocols/schemes/tfmcc/feedback_timer.h"
#include "protocols/schemes/tfmcc/receiver.h"
#include "protocols/schemes/tfmcc/sender.h"
#include "tests/protocols/rigs/recording_sink.h"

namespace tiercast::tfmcc {
namespace {

using Bytes = std::vector<std::byte>;

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

// Equation (1), in bytes/s, with its own numbers of 1000 bytes.
TEST(Rfc4654, Section2_1_TheThroughputEquation) {
  const auto x = [](double p, double r) {
    const Duration rtt = Duration::seconds(r);
    return tcp_throughput({.packet_size = 1000, .rtt = rtt, .timeout = rtt * 4, .clamp = false}, p)
        .bytes_per_second();
  };
  EXPECT_NEAR(x(0.01, 0.1), 112'332.234, 0.001);
  EXPECT_NEAR(x(0.1, 0.1), 17'701.021, 0.001);
  EXPECT_NEAR(x(0.5, 0.2), 208.6808, 0.0001);
}

TEST(Rfc4654, Section4_5_TheFeedbackTimer) {
  EXPECT_NEAR(feedback_wait(10000, 1e-4), 0, 1e-9);
  EXPECT_NEAR(feedback_wait(10000, 0.01), 0.5, 1e-9);
  EXPECT_NEAR(feedback_wait(10000, 0.5), 0.9247425, 1e-7);  // 1 - log 2 / log 10000
  EXPECT_EQ(feedback_wait(10000, 1), 1);
  EXPECT_EQ(feedback_wait(10000, 1e-9), 0);
}

// Eight closed intervals of 100 packets and an open one, each loss an event of its own.
LossHistory hundreds(std::uint32_t open) {
  LossHistory history({.later_packets = 3, .discount_floor = 0.5});
  std::uint32_t seq = 0;
  const auto packet = [&] {
    const auto report = history.receive(Time::zero() + Duration::milliseconds(10 * (seq + 1)), seq,
                                        false, Duration::milliseconds(5));
    if (report.first) history.set_first_interval(100);
    ++seq;
  };
  for (int event = 0; event < 8; ++event) {
    while (seq % 100 != 99) packet();
    ++seq;  // lost: the next interval's first packet
  }
  while (history.events() < 8 || history.open_interval() < open) packet();
  return history;
}

TEST(Rfc4654, Section5_4_TheAverageLossInterval) {
  EXPECT_NEAR(hundreds(50).loss_event_rate(), 0.01, 1e-12);
  // I_tot0 = 200 + 100 (1 + 1 + 1 + 0.8 + 0.6 + 0.4 + 0.2) = 700; W_tot = 6.
  EXPECT_NEAR(hundreds(200).loss_event_rate(), 6.0 / 700, 1e-12);
}

TEST(Rfc4654, Section5_5_OldIntervalsAreDiscountedToAHalf) {
  const double df = 2 * 100.0 / 300;
  EXPECT_NEAR(hundreds(300).loss_event_rate(), (1 + 5 * df) / (300 + 500 * df), 1e-12);
  EXPECT_NEAR(hundreds(4000).loss_event_rate(), (1 + 5 * 0.5) / (4000 + 500 * 0.5), 1e-12);
}

// I_0 counts up to the highest packet that has arrived, not to the first that is missing.
TEST(Rfc5348, Section5_3_TheOpenIntervalReachesTheHighestPacket) {
  LossHistory history({.later_packets = 3});
  for (const std::uint32_t seq : {0u, 1u, 2u, 4u, 5u}) {
    history.receive(Time::zero() + Duration::milliseconds(10 * seq), seq, false,
                    Duration::milliseconds(5));
  }
  EXPECT_EQ(history.events(), 0u);
  EXPECT_EQ(history.open_interval(), 6u);
}

// A receiver 30 ms from a sender of 100 packets a second, whose clock is 1000 s ahead and wraps.
class Rfc4654Receiver : public testing::Test {
 protected:
  explicit Rfc4654Receiver(const std::vector<std::string>& set = {"tfmcc.ecn=1"})
      : receiver_(config(set)) {
    receiver_.start(now_, sink_);
    data_.session = 9;
    data_.seq = 0xffffffc0;
    data_.max_rtt_us = 500'000;
  }
  void packet(bool ce = false) {
    wait(interval_);
    data_.tx_time_us =
        static_cast<std::uint32_t>((now_ - Time::zero()).us() - delay_us_) + clock_ahead_us_;
    receiver_.receive(now_, {pack(data_), 1000, ce, 1}, sink_);
    ++data_.seq;
    wait(Duration::zero());
  }
  void packets(int n) {
    while (n-- > 0) packet();
  }
  // Time in which nothing arrives.
  void wait(Duration duration) {
    const Time end = now_ + duration;
    while (receiver_.next_timer() <= end) {
      now_ = std::max(now_, receiver_.next_timer());
      receiver_.timer(now_, sink_);
    }
    now_ = end;
  }
  void loss() {
    ++data_.seq;
    now_ = now_ + interval_;
    packet();
  }
  void lossy(int n) {
    for (; n > 0; n -= 10) {
      packets(8);
      loss();
    }
  }
  // An echo of a report that left `rtt_ms` ago.
  void echo(std::int64_t rtt_ms, bool is_clr = false) {
    data_.echo_valid = true;
    data_.is_clr = is_clr;
    data_.echo_source = 77;
    data_.echo_time_us =
        static_cast<std::uint32_t>((now_ + interval_ - Time::zero()).us() - rtt_ms * 1000);
    packet();
    data_.echo_valid = false;
  }
  // A new round and packets until the report of it is sent; the time it took.
  double time_to_report(auto&& in_between) {
    packets(20);
    echo(60);
    packets(20);
    sink_.sent.clear();
    ++data_.fb_round;
    packet();
    const Time began = now_;
    packets(5);
    in_between();
    for (int i = 0; i < 2000 && sink_.sent.empty(); ++i) packet();
    EXPECT_EQ(sink_.sent.size(), 1u);
    return sent_at() - (began - Time::zero()).seconds();
  }
  wire::TfmccFeedback last() const {
    wire::TfmccFeedback feedback;
    EXPECT_EQ(wire::parse(sink_.sent.back(), feedback), wire::Error::kOk);
    return feedback;
  }
  double sent_at() const { return last().time_us * 1e-6; }
  double rtt() const { return receiver_.rtt().seconds(); }
  double x_r() const { return receiver_.desired_rate().bytes_per_second(); }

  RecordingSink sink_;
  Time now_ = Time::zero() + Duration::seconds(50);
  Duration interval_ = Duration::milliseconds(10);
  std::int64_t delay_us_ = 30'000;
  std::uint32_t clock_ahead_us_ = 4'294'000'000;
  wire::TfmccData data_;
  Receiver receiver_;
};

// After 4.3.3 the RTT follows the difference of the clocks, so that of another sender would be
// nonsense.
TEST_F(Rfc4654Receiver, WhatWasMeasuredWithARestartedSenderIsForgotten) {
  packets(20);
  echo(60);
  lossy(100);
  ASSERT_TRUE(receiver_.have_loss());
  data_.seq += 1u << 30;
  clock_ahead_us_ += 1'000'000'000;
  packets(2);  // they might be somebody else's
  EXPECT_TRUE(receiver_.have_rtt());
  EXPECT_TRUE(receiver_.have_loss());
  EXPECT_NEAR(rtt(), 0.06, 1e-6);
  packet();
  EXPECT_FALSE(receiver_.have_rtt());
  EXPECT_FALSE(receiver_.have_loss());
  EXPECT_EQ(receiver_.loss_event_rate(), 0);
  EXPECT_EQ(receiver_.rtt(), Duration::milliseconds(500));
  packets(20);
  echo(80);
  packets(20);
  EXPECT_NEAR(rtt(), 0.08, 1e-6);
}

TEST_F(Rfc4654Receiver, Section4_1_TheRttIsRmaxAtFirst) {
  packets(10);
  EXPECT_FALSE(receiver_.have_rtt());
  EXPECT_FALSE(receiver_.have_loss());
  EXPECT_EQ(receiver_.rtt(), Duration::milliseconds(500));
  EXPECT_EQ(receiver_.loss_event_rate(), 0);
}

TEST_F(Rfc4654Receiver, Section4_2_TheClrSaysThatItLeaves) {
  packets(20);
  echo(100, true);
  receiver_.stop(now_, sink_);
  EXPECT_TRUE(last().leave);
}

TEST_F(Rfc4654Receiver, Section4_3_1_HaveLossIsClearedAfterTenRttsWithoutData) {
  packets(100);
  lossy(100);
  ASSERT_TRUE(receiver_.have_loss());
  wait(Duration::seconds(4.9));  // R_max is 0.5 s
  packet();
  EXPECT_TRUE(receiver_.have_loss());
  const double p = receiver_.loss_event_rate();
  wait(Duration::seconds(5.1));
  packets(100);
  EXPECT_FALSE(receiver_.have_loss());
  EXPECT_GT(receiver_.loss_event_rate(), 0);
  EXPECT_LE(receiver_.loss_event_rate(), p);
  echo(60);
  packets(40);
  EXPECT_NEAR(x_r(), 200'000, 1);  // twice what it receives
  lossy(20);
  EXPECT_TRUE(receiver_.have_loss());
}

TEST_F(Rfc4654Receiver, Section4_3_2_MeasurementsAreFiltered) {
  packets(10);
  echo(60);
  EXPECT_NEAR(rtt(), 0.060, 1e-6);
  echo(120);
  EXPECT_NEAR(rtt(), 0.5 * 0.060 + 0.5 * 0.120, 1e-6);
  echo(160, true);
  EXPECT_NEAR(rtt(), 0.9 * 0.090 + 0.1 * 0.160, 1e-6);
}

TEST_F(Rfc4654Receiver, Section4_3_2_TheLeastRttIsAMillisecond) {
  packets(10);
  echo(0);
  EXPECT_EQ(receiver_.rtt(), Duration::milliseconds(1));
}

TEST_F(Rfc4654Receiver, Section4_3_3_OneWayDelaysReplaceTheRttUntilTheNextMeasurement) {
  packets(10);
  echo(60);
  packets(3);
  EXPECT_NEAR(rtt(), 0.060, 1e-6);
  delay_us_ += 40'000;  // a queue on the way down
  packet();
  EXPECT_NEAR(rtt(), 0.100, 1e-6);  // in full, from the first packet on
  delay_us_ -= 100'000;
  packet();
  EXPECT_EQ(receiver_.rtt(), Duration::milliseconds(1));
  delay_us_ += 60'000;
  echo(120);
  EXPECT_NEAR(rtt(), 0.5 * 0.060 + 0.5 * 0.120, 1e-6);  // what was in between is discarded
}

TEST_F(Rfc4654Receiver, Section4_3_4_BeforeALossItAsksForTwiceWhatItReceived) {
  packets(10);
  echo(60);
  packets(40);
  EXPECT_NEAR(x_r(), 200'000, 1);
  interval_ = Duration::milliseconds(5);
  packets(20);  // 100 of the last 180 ms: k = 3
  EXPECT_NEAR(x_r(), 2 * (100 * 200 + 80 * 100) * 1000 / 180.0, 15'000);  // a bin's worth
  packets(20);
  EXPECT_NEAR(x_r(), 400'000, 1);
}

TEST_F(Rfc4654Receiver, Section4_4_AfterALossTheEquationGivesTheRate) {
  packets(60);
  echo(60);
  packets(20);
  packet(true);
  // 5.6: l_0 = (100'000 * 0.06 / (sqrt(3/2) * 1000))^2 = 24.
  EXPECT_NEAR(receiver_.loss_event_rate(), 1 / 24.0, 1e-9);
  EXPECT_NEAR(x_r(), 71'641.79, 0.01);
  delay_us_ += 60'000;  // twice the RTT
  packet();
  EXPECT_NEAR(x_r(), 71'641.79 / 2, 0.01);
}

TEST_F(Rfc4654Receiver, Section5_6_TheFirstIntervalIsCorrectedWithTheFirstRtt) {
  packets(100);
  packet(true);
  // (100'000 * 0.5 / (sqrt(3/2) * 1000))^2, with R_max.
  EXPECT_NEAR(receiver_.loss_event_rate(), 1 / (2500 / 1.5), 1e-9);
  echo(60);
  EXPECT_NEAR(receiver_.loss_event_rate(), 1 / 24.0, 1e-9);
}

TEST_F(Rfc4654Receiver, Section4_5_TheClrReportsOnceAnRttAndNoMore) {
  packets(20);
  echo(100, true);
  sink_.sent.clear();
  data_.supp_rate = 1;  // it is never suppressed
  packets(200);
  EXPECT_EQ(sink_.sent.size(), 20u);
  EXPECT_TRUE(last().have_rtt);
  lossy(200);  // nor is it earlier because of a loss
  EXPECT_NEAR(static_cast<double>(sink_.sent.size()), 40, 1);
  EXPECT_TRUE(last().have_loss);
  // Another one is told to be the CLR.
  data_.echo_valid = data_.is_clr = true;
  data_.echo_source = 5;
  packet();
  EXPECT_FALSE(receiver_.is_clr());
  sink_.sent.clear();
  packets(200);
  EXPECT_TRUE(sink_.sent.empty());
}

// An RTT of 15 ms and packets every 10 ms: two reports in three packets.
TEST_F(Rfc4654Receiver, Section4_5_TheClrReportsOnceAnRttOnAverage) {
  packets(20);
  delay_us_ = 7'500;
  echo(15, true);
  sink_.sent.clear();
  packets(300);
  EXPECT_NEAR(static_cast<double>(sink_.sent.size()), 200, 1);
}

// In the rounds' course rates change: the receiver's own counts as it was at the round's start and
// as it is now, whichever is higher (X_fbr).
TEST_F(Rfc4654Receiver, Section4_5_ALowerSuppressionRateCancelsTheTimer) {
  packets(20);
  echo(60);
  packets(20);  // X_r = 200'000
  const auto reports_with = [&](std::uint32_t supp_rate, std::uint32_t max_rtt_us) {
    sink_.sent.clear();
    ++data_.fb_round;
    data_.supp_rate = wire::TfmccData::kNoRate;
    data_.max_rtt_us = max_rtt_us;
    packet();
    data_.supp_rate = supp_rate;
    packets(310);
    return sink_.sent.size();
  };
  EXPECT_EQ(reports_with(200'100, 500'000), 1u);
  EXPECT_EQ(reports_with(199'900, 500'000), 0u);
  EXPECT_EQ(reports_with(199'900, 60'100), 0u);
  EXPECT_EQ(reports_with(199'900, 59'900), 1u);  // its RTT is longer than R_max
  // X_fbr: all rates fall after the round has begun.
  ++data_.fb_round;
  data_.supp_rate = wire::TfmccData::kNoRate;
  data_.max_rtt_us = 500'000;
  sink_.sent.clear();
  packet();
  packet(true);
  ASSERT_LT(x_r(), 100'000);
  data_.supp_rate = 150'000;  // below X_fbr = 200'000
  packets(310);
  EXPECT_TRUE(sink_.sent.empty());
}

TEST_F(Rfc4654Receiver, Section4_5_ANewRoundCancelsTheOldOnesReport) {
  packets(20);
  echo(60);
  sink_.sent.clear();
  int late = 0;
  for (int round = 0; round < 100; ++round) {
    ++data_.fb_round;
    packets(30);  // 0.3 s of T = 3 s
    late += static_cast<int>(sink_.sent.size());
    for (const Bytes& sent : sink_.sent) {
      wire::TfmccFeedback feedback;
      ASSERT_EQ(wire::parse(sent, feedback), wire::Error::kOk);
      EXPECT_EQ(feedback.fb_round, data_.fb_round);
    }
    sink_.sent.clear();
  }
  // P(t <= 0.1 T) = N^-0.9 = 0.00025.
  EXPECT_LE(late, 2);
}

// Two receivers with the same random numbers; the second's R_max doubles 50 ms after the round
// began.
TEST(Rfc4654, Section4_5_TheTimerFollowsRmax) {
  struct Rig : Rfc4654Receiver {
    void TestBody() override {}
    using Rfc4654Receiver::data_;
    using Rfc4654Receiver::time_to_report;
    using Rfc4654Receiver::wait;
  };
  Rig steady, doubled, gap;
  const double t = steady.time_to_report([] {});
  ASSERT_GT(t, 0.2);
  EXPECT_NEAR(doubled.time_to_report([&] { doubled.data_.max_rtt_us *= 2; }), 2 * t, 1e-5);
  // t + max(tr_now - tr_i - R_max, 0): 0.8 s without data, and the next packet's interval.
  EXPECT_NEAR(gap.time_to_report([&] { gap.wait(Duration::milliseconds(800)); }), t + 0.31, 1e-5);
}

TEST_F(Rfc4654Receiver, Section4_5_ASenderThatCrashedGetsNoReports) {
  packets(20);
  ++data_.fb_round;
  packet();
  sink_.sent.clear();
  wait(Duration::seconds(1000));
  EXPECT_TRUE(sink_.sent.empty());
}

TEST_F(Rfc4654Receiver, Section2_2_2_TheEchoIsLaterByTheTimeItWasHeld) {
  interval_ = Duration::milliseconds(400);
  data_.max_rtt_us = 410'000;
  packets(40);
  ASSERT_FALSE(sink_.sent.empty());
  const std::uint32_t one_way = last().time_us - (last().echo_time_us - 4'294'000'000u);
  EXPECT_NEAR(static_cast<double>(one_way), 30'000, 1);
}

TEST_F(Rfc4654Receiver, Section5_1_ThreeLaterPacketsMakeALossAndAMarkDoesAtOnce) {
  packets(20);
  echo(60);
  packets(20);
  loss();
  packet();
  EXPECT_FALSE(receiver_.have_loss());
  packet();
  EXPECT_TRUE(receiver_.have_loss());
}

// One that was overtaken by two others is not lost.
TEST(Rfc4654, Section5_1_ReorderingIsBorne) {
  LossHistory history({.later_packets = 3});
  for (const std::uint32_t seq : {0u, 1u, 3u, 4u, 2u, 5u, 6u}) {
    history.receive(Time::zero() + Duration::milliseconds(seq), seq, false, Duration::zero());
  }
  EXPECT_EQ(history.events(), 0u);
}

// T_loss is interpolated: of losses at 0, 20, 40 and 60 ms all lie within the RTT of the first; the
// one at 80 ms begins another event, whose interval has 8 packets.
TEST(Rfc4654, Section5_2_LossesWithinAnRttAreOneEvent) {
  LossHistory history({.later_packets = 3});
  const auto packet = [&](std::uint32_t seq) {
    history.receive(Time::zero() + Duration::milliseconds(10 * seq), seq, false,
                    Duration::milliseconds(60));
  };
  for (std::uint32_t seq = 0; seq < 50; ++seq) packet(seq);
  for (const std::uint32_t seq : {51u, 53u, 55u, 57u, 58u, 59u}) packet(seq);
  EXPECT_EQ(history.events(), 1u);
  for (std::uint32_t seq = 60; seq < 80; ++seq) packet(seq);
  EXPECT_EQ(history.events(), 1u);
  EXPECT_EQ(history.open_interval(), 30u);  // 50 to 79
  for (const std::uint32_t seq : {81u, 82u, 83u}) packet(seq);
  EXPECT_EQ(history.events(), 2u);
  EXPECT_EQ(history.closed_interval(0), 30);  // 5.3: S_B - S_A
}

// The timers of two receivers with the same random numbers end together, whatever their rates.
TEST(Rfc4654, Section4_5_TheTimerDoesNotDependOnTheRate) {
  struct Rig : Rfc4654Receiver {
    void TestBody() override {}
    using Rfc4654Receiver::data_;
    using Rfc4654Receiver::packet;
    using Rfc4654Receiver::time_to_report;
    using Rfc4654Receiver::x_r;
  };
  Rig fast, slow;
  const double t = fast.time_to_report([] {});
  double after_mark = 0;
  const auto mark = [&] {
    slow.packet(true);
    after_mark = slow.x_r();
  };
  EXPECT_NEAR(slow.time_to_report(mark), t, 1e-5);
  EXPECT_LT(after_mark, fast.x_r() / 2);
}

class Rfc4654Sender : public testing::Test {
 protected:
  explicit Rfc4654Sender(const std::vector<std::string>& set = {}) : sender_(config(set)) {
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
    while (sender_.next_timer() <= end) {
      now_ = std::max(now_, sender_.next_timer());
      sender_.timer(now_, sink_);
    }
    now_ = end;
  }
  struct Report {
    double rate;
    double rtt = 0.1;  // s, as the sender measures it
    bool have_rtt = true;
    bool have_loss = true;
    bool leave = false;
  };
  void report(std::uint32_t from, const Report& r) {
    wire::TfmccFeedback feedback;
    feedback.session = 9;
    feedback.have_rtt = r.have_rtt;
    feedback.have_loss = r.have_loss;
    feedback.leave = r.leave;
    feedback.source = from;
    feedback.fb_round = fb_round_ ? *fb_round_ : header().fb_round;
    feedback.rate = static_cast<std::uint32_t>(std::lround(r.rate));
    feedback.time_us = 123;
    feedback.echo_time_us = static_cast<std::uint32_t>(now_.ns() / 1000 - std::lround(r.rtt * 1e6));
    sender_.receive(now_, {pack(feedback), 72, false, from}, sink_);
  }
  // Out of slow start, with receiver 5 as the CLR at `rate`, and no other.
  void settle(double rate, double rtt = 0.1) {
    report(5, {.rate = rate, .rtt = rtt});
    while (sender_.rate().bytes_per_second() < rate) {
      run(0.05);
      report(5, {.rate = rate, .rtt = rtt});
    }
    ASSERT_EQ(sender_.clr(), 5u);
  }
  double rate() const { return sender_.rate().bytes_per_second(); }
  double max_rtt() const { return sender_.max_rtt().seconds(); }

  std::optional<std::uint16_t> fb_round_;  // of reports; else the present one
  RecordingSink sink_;
  // The clock's 32 bits of microseconds wrap 2 s later.
  Time now_ = Time::nanoseconds(((1ll << 32) - 2'000'000) * 1000);
  Sender sender_;
};

TEST_F(Rfc4654Sender, Section3_1_BeginsWithAPacketPerInitialRtt) {
  EXPECT_DOUBLE_EQ(rate(), 2'000);
  EXPECT_NEAR(max_rtt(), 0.5, 2e-6);
  EXPECT_FALSE(header().echo_valid);
}

TEST_F(Rfc4654Sender, Section3_2_RmaxRisesAtOnceAndFallsByATenthPerRound) {
  settle(20'000);
  report(5, {.rate = 20'000, .rtt = 0.8});
  EXPECT_NEAR(max_rtt(), 0.8, 1e-9);
  const auto round_with = [&](double rtt) {
    const std::uint16_t round = header().fb_round;
    report(5, {.rate = 20'000, .rtt = rtt});
    while (header().fb_round == round) run(0.01);
    return max_rtt();
  };
  EXPECT_NEAR(round_with(0.1), 0.8, 1e-9);  // R_peak was 0.8 in this round
  EXPECT_NEAR(round_with(0.1), 0.72, 1e-9);
  EXPECT_NEAR(round_with(0.7), 0.7, 1e-9);
}

TEST_F(Rfc4654Sender, Section3_2_RmaxIsAtLeastTheIntervalOfPackets) {
  settle(20'000);
  report(5, {.rate = 500});
  EXPECT_NEAR(max_rtt(), 2, 1e-5);  // 1000 / 500, and the clock's granularity
  EXPECT_GT(max_rtt(), 2);
  for (int i = 0; i < 12; ++i) {  // two rounds and more
    run(5);
    report(5, {.rate = 500});
    EXPECT_NEAR(max_rtt(), 2, 1e-5);
  }
}

// Case 1, and what is not a CLR: one that leaves.
TEST_F(Rfc4654Sender, Section3_3_WithoutAClrTheFirstToReportIsIt) {
  report(4, {.rate = 1'000, .leave = true});
  EXPECT_FALSE(sender_.clr_valid());
  report(5, {.rate = 1'500});
  EXPECT_EQ(sender_.clr(), 5u);
  EXPECT_DOUBLE_EQ(rate(), 1'500);
}

// Cases 2 and 4.
TEST_F(Rfc4654Sender, Section3_3_DownAtOnceUpByAPacketPerRmaxAndReport) {
  settle(2'000);
  const double step = 1'000 / max_rtt();
  report(5, {.rate = 100'000});
  EXPECT_NEAR(rate(), 2'000 + step, 1e-6);
  report(5, {.rate = 100'000});  // X + 8s/R_max again, whenever it comes
  EXPECT_NEAR(rate(), 2'000 + 2 * step, 1e-6);
  report(5, {.rate = 6'100});
  EXPECT_NEAR(rate(), 6'100, 1e-6);  // X_r is less than that
  report(6, {.rate = 6'200});
  EXPECT_EQ(sender_.clr(), 5u);
  report(6, {.rate = 1'500, .leave = true});
  EXPECT_EQ(sender_.clr(), 5u);
  report(6, {.rate = 1'500});
  EXPECT_EQ(sender_.clr(), 6u);
  EXPECT_DOUBLE_EQ(rate(), 1'500);
}

// Case 3.
TEST_F(Rfc4654Sender, Section3_3_AfterAClrThatLeavesTheRateDoesNotRiseForARound) {
  settle(20'000);
  report(5, {.rate = 20'000, .leave = true});
  EXPECT_EQ(sender_.clr(), 5u);
  report(6, {.rate = 90'000});
  EXPECT_EQ(sender_.clr(), 6u);
  const double t = sender_.round_length().seconds();
  for (int i = 0; i < 9; ++i) {
    run(t / 10);
    report(6, {.rate = 90'000});
    EXPECT_DOUBLE_EQ(rate(), 20'000);
  }
  report(7, {.rate = 18'000});  // but it falls
  EXPECT_DOUBLE_EQ(rate(), 18'000);
  EXPECT_EQ(sender_.clr(), 7u);
  run(t / 5);
  report(7, {.rate = 90'000});
  EXPECT_NEAR(rate(), 18'000 + 1'000 / max_rtt(), 1e-6);
}

TEST_F(Rfc4654Sender, Section3_3_ARateThatWasCalculatedWithRmaxIsCorrected) {
  settle(2'000);
  const double ratio = max_rtt() / 0.1;
  report(6, {.rate = 2'100 / ratio, .have_rtt = false});
  EXPECT_EQ(sender_.clr(), 5u);
  report(6, {.rate = 1'900 / ratio, .have_rtt = false});
  EXPECT_EQ(sender_.clr(), 6u);
  EXPECT_NEAR(rate(), 1'900, ratio);
}

TEST_F(Rfc4654Sender, Section3_3_ASilentClrHalvesTheRateAfterFourRttsAndIsGoneAfterTen) {
  settle(20'000);
  const double r = max_rtt();
  for (int i = 0; i < 12; ++i) {  // it is no new one
    run(r);
    report(5, {.rate = 20'000, .rtt = r});
  }
  fb_round_ = header().fb_round;
  const auto others = [&](double until) {  // so that R_max stays, and it is not silence
    const Time end = now_ + Duration::seconds(until);
    while (now_ < end) {
      report(6, {.rate = 50'000, .rtt = r});
      run(r / 10);
    }
  };
  others(3.9 * r);
  EXPECT_DOUBLE_EQ(rate(), 20'000);
  others(0.3 * r);
  EXPECT_DOUBLE_EQ(rate(), 10'000);
  others(5.5 * r);
  EXPECT_DOUBLE_EQ(rate(), 10'000);
  EXPECT_EQ(sender_.clr(), 5u);
  others(0.6 * r);
  EXPECT_EQ(sender_.clr(), 6u);
  // As in case 3: no rise for a round.
  others(5 * r);
  EXPECT_DOUBLE_EQ(rate(), 10'000);
  others(1.2 * r);
  EXPECT_GT(rate(), 10'000);
}

TEST_F(Rfc4654Sender, Section3_3_AClrOfLessThanTenRttsDoesNotHalveTheRate) {
  run(1);
  report(5, {.rate = 1'900, .rtt = 0.6});
  const double r = max_rtt();
  fb_round_ = header().fb_round;
  for (int i = 0; i < 9; ++i) {
    run(r);
    report(6, {.rate = 50'000, .rtt = r});
  }
  EXPECT_DOUBLE_EQ(rate(), 1'900);
}

TEST_F(Rfc4654Sender, Section3_3_WithoutFeedbackTheRateIsHalvedEveryTenRtts) {
  // R_max = 0.5 s, and then the interval of packets.
  run(4.9);
  EXPECT_DOUBLE_EQ(rate(), 2'000);
  run(0.2);
  EXPECT_DOUBLE_EQ(rate(), 1'000);
  run(9.8);
  EXPECT_DOUBLE_EQ(rate(), 1'000);
  run(0.2);
  EXPECT_DOUBLE_EQ(rate(), 500);
  run(1000);
  EXPECT_DOUBLE_EQ(rate(), 125);  // a packet every 8 seconds
}

TEST_F(Rfc4654Sender, Section3_4_ARoundIsSixRmaxAndEndsWithFeedback) {
  EXPECT_NEAR(sender_.round_length().seconds(), 3, 1e-4);
  const std::uint16_t first = header().fb_round;
  run(1);
  report(5, {.rate = 2'000, .rtt = 0.5});
  run(1.9);
  EXPECT_EQ(header().fb_round, first);
  run(0.2);
  EXPECT_EQ(header().fb_round, static_cast<std::uint16_t>(first + 1));
  // The CLR alone reports: the round goes on, but 2T at most.
  const double t = sender_.round_length().seconds();
  const auto clr_for = [&](double time) {
    for (const Time end = now_ + Duration::seconds(time); now_ < end; run(0.1))
      report(5, {.rate = 2'000, .rtt = 0.5});
  };
  clr_for(1.8 * t);
  EXPECT_EQ(header().fb_round, static_cast<std::uint16_t>(first + 1));
  clr_for(0.4 * t);
  EXPECT_EQ(header().fb_round, static_cast<std::uint16_t>(first + 2));
  clr_for(1.2 * t);
  EXPECT_EQ(header().fb_round, static_cast<std::uint16_t>(first + 2));
  report(6, {.rate = 3'000, .rtt = 0.5});  // after T: at once
  EXPECT_EQ(header().fb_round, static_cast<std::uint16_t>(first + 3));
}

TEST_F(Rfc4654Sender, Section3_4_OthersReportsLowerTheSuppressionRate) {
  EXPECT_EQ(header().supp_rate, wire::TfmccData::kNoRate);
  report(5, {.rate = 2'000});             // it becomes the CLR by this, and counts all the same
  EXPECT_EQ(header().supp_rate, 1'800u);  // (1 - g) X_r
  report(6, {.rate = 1'900});
  EXPECT_EQ(header().supp_rate, 1'800u);  // X_supp <= X_r
  report(5, {.rate = 1'000});             // the CLR's do not
  report(6, {.rate = 1'000});
  EXPECT_EQ(header().supp_rate, 900u);
  // As it was reported: corrected by R_max / R_r it would be 5 times as much.
  report(7, {.rate = 500, .have_rtt = false});
  EXPECT_EQ(header().supp_rate, 450u);
  fb_round_ = static_cast<std::uint16_t>(header().fb_round - 1);
  report(8, {.rate = 100});  // of an older round
  EXPECT_EQ(header().supp_rate, 450u);
  fb_round_.reset();
  const std::uint16_t round = header().fb_round;
  while (header().fb_round == round) run(0.01);
  EXPECT_EQ(header().supp_rate, wire::TfmccData::kNoRate);
}

TEST_F(Rfc4654Sender, Section3_5_TheMostUrgentTimeStampIsEchoed) {
  const std::uint16_t round = header().fb_round;
  report(5, {.rate = 1'900});
  run(0.02);
  wire::TfmccData data = header();
  ASSERT_TRUE(data.echo_valid);
  EXPECT_TRUE(data.is_clr);
  EXPECT_EQ(data.echo_source, 5u);
  EXPECT_EQ(data.echo_time_us, 123u + 20'000u);  // and the time that it was held
  // 1. a new CLR; 2. without an RTT, of the older round first; 3. with one, likewise; 4. the CLR.
  const auto next = [&](std::initializer_list<std::pair<std::uint32_t, Report>> reports) {
    for (const auto& [from, r] : reports) {
      fb_round_ = static_cast<std::uint16_t>(from == 9 ? round - 1 : round);
      report(from, r);
    }
    return header().echo_source;
  };
  const Report clr{.rate = 1'900}, high{.rate = 2'600}, low{.rate = 2'500},
      blind{.rate = 2'800, .have_rtt = false, .have_loss = false}, slower{.rate = 1'800};
  EXPECT_EQ(next({{5, clr}, {6, high}, {7, low}}), 7u);   // the lower rate
  EXPECT_EQ(next({{7, low}, {9, high}, {6, high}}), 9u);  // the older round
  EXPECT_EQ(next({{8, blind}, {7, low}, {9, high}, {5, clr}}), 8u);
  EXPECT_EQ(next({{8, blind}, {9, blind}}), 9u);
  EXPECT_EQ(next({{9, blind}, {4, slower}, {8, blind}}), 4u);
  EXPECT_EQ(sender_.clr(), 4u);
}

TEST_F(Rfc4654Sender, Section3_5_TheClrsTimeStampIsEchoedWheneverThereIsNoOther) {
  report(5, {.rate = 1'900});
  for (int i = 0; i < 5; ++i) {
    run(0.01);
    const wire::TfmccData data = header();
    EXPECT_EQ(data.echo_source, 5u);
    EXPECT_TRUE(data.is_clr);
    EXPECT_EQ(data.echo_time_us, 123u + 10'000u * static_cast<unsigned>(i + 1));
  }
}

TEST_F(Rfc4654Sender, Section3_5_TheClrsTimeStampIsEchoedOncePerRoundAtLeast) {
  report(5, {.rate = 1'900});
  fb_round_ = header().fb_round;
  std::vector<unsigned> clr_echoes{0};  // of each round
  for (int packet = 0; packet < 40; ++packet) {
    report(6, {.rate = 3'000});  // another's before every packet
    const wire::TfmccData data = header();
    if (data.fb_round != fb_round_) clr_echoes.push_back(0);
    fb_round_ = data.fb_round;
    clr_echoes.back() += data.is_clr ? 1 : 0;
    run(1'000 / rate());
    report(5, {.rate = 1'900});
  }
  ASSERT_GE(clr_echoes.size(), 5u);
  for (std::size_t i = 1; i + 1 < clr_echoes.size(); ++i) EXPECT_EQ(clr_echoes[i], 1u);
}

TEST_F(Rfc4654Sender, Section3_6_SlowStartRisesToTheLowestReportOverAnRtt) {
  report(5, {.rate = 4'000, .have_loss = false});
  EXPECT_DOUBLE_EQ(rate(), 2'000);
  EXPECT_TRUE(sender_.slow_start());
  run(0.25);  // half of R_max
  EXPECT_NEAR(rate(), 3'000, 130);
  run(0.3);
  EXPECT_NEAR(rate(), 4'000, 1);
  report(5, {.rate = 100'000, .have_loss = false});
  run(0.25);
  EXPECT_NEAR(rate(), 52'000, 6'500);  // no bound of a packet per R_max
  report(6, {.rate = 70'000, .have_loss = false});
  EXPECT_EQ(sender_.clr(), 6u);
  run(1);
  EXPECT_NEAR(rate(), 70'000, 1);
  report(7, {.rate = 30'000});  // the first loss of any ends it
  EXPECT_FALSE(sender_.slow_start());
  EXPECT_EQ(sender_.clr(), 7u);
  EXPECT_DOUBLE_EQ(rate(), 30'000);
  report(7, {.rate = 100'000});
  EXPECT_NEAR(rate(), 30'000 + 1'000 / max_rtt(), 1e-6);
}

// Each report begins the rise anew, from where the last one has brought X: after 25 reports within
// half of R_max 1 - (1 - 0.01 / 0.5)^25 = 0.4 of the way is done.
TEST_F(Rfc4654Sender, Section3_6_FrequentReportsDoNotHoldSlowStartUp) {
  report(5, {.rate = 4'000, .have_loss = false});
  for (int i = 0; i < 25; ++i) {
    run(0.01);
    report(5, {.rate = 4'000, .have_loss = false});
  }
  EXPECT_NEAR(rate(), 2'000 + 2'000 * 0.3965, 1);
}

TEST_F(Rfc4654Sender, AnImpossibleEchoIsRefused) {
  report(5, {.rate = 2'000, .rtt = -0.001});
  EXPECT_EQ(sender_.implausible(), 1u);  // of a packet that had not left
  // Of those that left long ago: R_max would fall by a tenth in six R_max, so the second would hold
  // the rate down for an hour.
  for (const double rtt : {65.0, 63.0, 5.001}) report(5, {.rate = 2'000, .rtt = rtt});
  EXPECT_EQ(sender_.implausible(), 4u);
  EXPECT_EQ(sender_.invalid(), 0u);
  EXPECT_FALSE(sender_.clr_valid());
  EXPECT_NEAR(max_rtt(), 0.5, 2e-6);
  report(5, {.rate = 2'000, .rtt = 4.999});
  EXPECT_EQ(sender_.implausible(), 4u);
  EXPECT_TRUE(sender_.clr_valid());
}

TEST(TfmccSettings, OneLayerOnly) {
  SessionConfig c = config();
  c.layers = 2;
  EXPECT_THROW(Receiver{c}, ConfigError);
}

}  // namespace
}  // namespace tiercast::tfmcc
