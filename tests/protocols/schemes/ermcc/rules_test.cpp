// ERMCC's cores, one rule at a time (ERMCC 3, Appendix A; PROTOCOLS 4).
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "protocols/common/mean_deviation.h"
#include "protocols/schemes/ermcc/receiver.h"
#include "protocols/schemes/ermcc/sender.h"
#include "tests/protocols/rigs/recording_sink.h"

namespace tiercast::ermcc {

struct LongRun {
  // As if so many more packets had left.
  static void pass(Sender& sender, std::uint64_t packets) {
    sender.seq_ += static_cast<std::uint32_t>(packets);
    sender.sent_ += packets;
  }
};

namespace {

using Bytes = std::vector<std::byte>;
using Kind = wire::ErmccFeedback::Kind;

SessionConfig config(const std::vector<std::string>& set = {}) {
  return core_config("ermcc", SessionConfig().layers, set);
}

template <class Message>
Bytes pack(const Message& message) {
  Bytes bytes(1000 - kIpUdpHeaderBytes);
  bytes.resize(std::is_same_v<Message, wire::ErmccData> ? bytes.size()
                                                        : wire::write(message, bytes));
  EXPECT_GT(wire::write(message, bytes), 0u);
  return bytes;
}

TEST(ErmccWire, RoundTripsAndRefusesInOrder) {
  wire::ErmccData data{9, true, 0xfffffffe, 5, 6, 7, 8, 9};
  Bytes bytes = pack(data);
  wire::ErmccData read;
  ASSERT_EQ(wire::parse(bytes, read), wire::Error::kOk);
  EXPECT_TRUE(read.cr_valid);
  EXPECT_EQ(read.seq, data.seq);
  EXPECT_EQ(read.cr, 5u);
  EXPECT_EQ(read.mu_hat, 6u);
  EXPECT_EQ(read.sigma_hat, 7u);
  EXPECT_EQ(read.ask_from, 8u);
  EXPECT_EQ(read.ask_share, 9u);
  bytes[8] = std::byte{2};
  EXPECT_EQ(wire::parse(bytes, read), wire::Error::kRecord);
  bytes[11] = std::byte{1};
  EXPECT_EQ(wire::parse(bytes, read), wire::Error::kReserved);
  bytes[5] = std::byte{35};
  EXPECT_EQ(wire::parse(bytes, read), wire::Error::kLength);
  EXPECT_EQ(wire::parse(std::span(bytes).first(35), read), wire::Error::kShort);

  wire::ErmccFeedback feedback{9, Kind::kCongestion, 1, 2, 3, 4, 5};
  Bytes small = pack(feedback);
  wire::ErmccFeedback back;
  ASSERT_EQ(wire::parse(small, back), wire::Error::kOk);
  EXPECT_EQ(back.source, 1u);
  EXPECT_EQ(back.seq, 2u);
  EXPECT_EQ(back.omega, 3u);
  EXPECT_EQ(back.mu, 4u);
  EXPECT_EQ(back.sigma, 5u);
  small.push_back(std::byte{0});
  EXPECT_EQ(wire::parse(small, back), wire::Error::kLength);
  small.pop_back();
  small[8] = std::byte{3};
  EXPECT_EQ(wire::parse(small, back), wire::Error::kType);
  EXPECT_EQ(wire::parse(small, read), wire::Error::kType);
  EXPECT_EQ(wire::write(feedback, std::span(small).first(31)), 0u);
}

// ERMCC (2), (3) with alpha 1/8, by hand: mu and sigma after 1000, 2000, 500.
TEST(ErmccTrac, MeanAndDeviationAreThePapers) {
  MeanDeviation trac(0.125);
  trac.update(1000);
  EXPECT_EQ(trac.mean(), 1000);
  EXPECT_EQ(trac.deviation(), 0);
  trac.update(2000);
  EXPECT_DOUBLE_EQ(trac.mean(), 1125);
  EXPECT_DOUBLE_EQ(trac.deviation(), 0.125 * 875);  // from the updated mean
  trac.update(500);
  EXPECT_DOUBLE_EQ(trac.mean(), 0.875 * 1125 + 62.5);
  EXPECT_DOUBLE_EQ(trac.deviation(), 0.875 * 109.375 + 0.125 * (1046.875 - 500));
  MeanDeviation time(0.125, 0.5);
  time.update(3);
  EXPECT_EQ(time.deviation(), 1.5);  // as TCP begins
}

// A receiver that gets packets of 1000 bytes, 100 a second.
class ErmccReceiver : public testing::Test {
 protected:
  explicit ErmccReceiver(const std::vector<std::string>& set = {}) : receiver_(config(set)) {
    receiver_.start(Time::zero(), sink_);
  }
  void packet(bool ce = false) {
    now_ = now_ + Duration::milliseconds(10);
    data_.session = 9;
    receiver_.receive(now_, {pack(data_), 1000, ce, 1}, sink_);
    ++data_.seq;
  }
  void packets(int n) {
    while (n-- > 0) packet();
  }
  void loss(std::uint32_t n = 1) {
    data_.seq += n;
    now_ = now_ + Duration::milliseconds(10 * n);
    packet();
  }
  wire::ErmccFeedback last() const {
    wire::ErmccFeedback feedback;
    EXPECT_EQ(wire::parse(sink_.sent.back(), feedback), wire::Error::kOk);
    return feedback;
  }

  Receiver receiver_;
  RecordingSink sink_;
  Time now_ = Time::zero();
  wire::ErmccData data_{.seq = 0xffffff00};  // wraps on the way
};

TEST_F(ErmccReceiver, ALossWithoutACrIsReportedWithTheRateOfThePastWindow) {
  packets(300);
  ASSERT_TRUE(sink_.sent.empty());
  loss(3);
  ASSERT_EQ(sink_.sent.size(), 1u);  // one event, however many packets
  EXPECT_EQ(last().kind, Kind::kCongestion);
  EXPECT_EQ(last().source, 77u);
  EXPECT_EQ(last().seq, data_.seq - 1);
  EXPECT_NEAR(last().omega, 97'000, 5'000);  // 97 of 100 packets in 1 s; a bin is 5 %
  EXPECT_EQ(last().mu, last().omega);
  EXPECT_EQ(last().sigma, 0u);
  EXPECT_EQ(receiver_.counters().lost, 3u);
}

TEST_F(ErmccReceiver, ItIsSilentWhileTheCrIsNotFaster) {
  data_.cr_valid = true;
  data_.cr = 5;
  data_.mu_hat = 110'000;
  data_.sigma_hat = 20'000;
  packets(300);
  loss();
  EXPECT_TRUE(sink_.sent.empty());  // 99000 is not below 90000
  data_.mu_hat = 130'000;
  loss();
  EXPECT_EQ(sink_.sent.size(), 1u);  // but below 110000
}

TEST_F(ErmccReceiver, TheCrAlwaysReportsAndLeavesInWords) {
  data_.cr_valid = true;
  data_.cr = 77;
  data_.mu_hat = 1;
  packets(300);
  loss();
  ASSERT_EQ(sink_.sent.size(), 1u);
  receiver_.stop(now_, sink_);
  ASSERT_EQ(sink_.sent.size(), 2u);
  EXPECT_EQ(last().kind, Kind::kLeave);
  EXPECT_EQ(sink_.left.size(), 1u);
}

TEST_F(ErmccReceiver, OthersLeaveInSilence) {
  packets(10);
  receiver_.stop(now_, sink_);
  EXPECT_TRUE(sink_.sent.empty());
}

TEST_F(ErmccReceiver, ANewcomersFirstMomentsAreNoTrac) {
  packets(5);
  loss();
  EXPECT_TRUE(sink_.sent.empty());
  EXPECT_EQ(receiver_.counters().lost, 1u);
}

TEST_F(ErmccReceiver, MarksCountOnlyWhereAskedFor) {
  packets(100);
  packet(true);
  EXPECT_TRUE(sink_.sent.empty());
  EXPECT_EQ(receiver_.counters().marked, 1u);
}

class ErmccMarkedReceiver : public ErmccReceiver {
 protected:
  ErmccMarkedReceiver() : ErmccReceiver({"ermcc.ecn=1"}) {}
};
TEST_F(ErmccMarkedReceiver, AMarkIsALoss) {
  packets(100);
  packet(true);
  EXPECT_EQ(sink_.sent.size(), 1u);
}

TEST_F(ErmccReceiver, AnOvertakenHeaderDoesNotBringTheOldCrBack) {
  data_.cr_valid = true;
  data_.cr = 5;
  data_.mu_hat = 1'000;
  packets(100);
  wire::ErmccData late = data_;
  late.seq -= 50;
  late.cr = 77;
  receiver_.receive(now_, {pack(late), 1000, false, 1}, sink_);
  loss();
  EXPECT_TRUE(sink_.sent.empty());
}

// Each portion of a tenth asks about a tenth of the receivers, and ten portions ask each receiver
// once.
TEST(ErmccAsk, PortionsAreDisjointAndReachEverybody) {
  constexpr std::uint32_t kTenth = 429496729;
  std::array<int, 10> answers{};
  for (std::uint32_t id = 1; id <= 2000; ++id) {
    SessionConfig c = config();
    c.self_id = id;
    Receiver receiver(c);
    RecordingSink sink;
    receiver.start(Time::zero(), sink);
    wire::ErmccData data;
    data.session = 9;
    Time now = Time::zero();
    int mine = 0;
    for (std::size_t round = 0; round < 10; ++round) {
      data.ask_from = static_cast<std::uint32_t>(round) * (kTenth + 1);
      data.ask_share = kTenth;
      for (int i = 0; i < 12; ++i) {
        now = now + Duration::milliseconds(20);
        data.seq += i == 11 ? 2 : 1;
        receiver.receive(now, {pack(data), 1000, false, 1}, sink);
      }
      const int sent = static_cast<int>(sink.sent.size());
      answers[round] += sent - mine;
      mine = sent;
    }
    EXPECT_EQ(mine, 1) << "receiver " << id;
  }
  for (const int n : answers) EXPECT_NEAR(n, 200, 60);  // binomial: deviation 13
}

// The source. Its packets leave every 10 ms, whatever its rate is.
class ErmccSource : public testing::Test {
 protected:
  explicit ErmccSource(const std::vector<std::string>& set = {}) : sender_(config(set)) {
    sender_.start(Time::zero(), sink_);
    sender_.membership(Time::zero(), 0, sink_);
  }
  wire::ErmccData header() {
    Bytes message(972);
    EXPECT_GT(sender_.write_data(now_, 0, message), 0u);
    wire::ErmccData data;
    EXPECT_EQ(wire::parse(message, data), wire::Error::kOk);
    return data;
  }
  void run(double seconds) {
    const Time end = now_ + Duration::seconds(seconds);
    while (now_ < end) {
      last_ = header();
      now_ = now_ + Duration::milliseconds(10);
      if (sender_.next_timer() <= now_) sender_.timer(now_, sink_);
    }
  }
  void feedback(std::uint32_t from, std::uint32_t omega, std::uint32_t mu, std::uint32_t sigma,
                std::uint32_t packets_ago = 5, Kind kind = Kind::kCongestion) {
    const Bytes message =
        pack(wire::ErmccFeedback{9, kind, from, last_.seq - packets_ago, omega, mu, sigma});
    sender_.receive(now_, {message, 60, false, from}, sink_);
  }
  double rate() const { return sender_.rate().bytes_per_second(); }
  double traced(const char* kind, const char* field) { return sink_.last_trace[kind][field]; }

  Sender sender_;
  RecordingSink sink_;
  Time now_ = Time::zero();
  wire::ErmccData last_;
};

TEST_F(ErmccSource, BeginsWithAPacketAnRttAndGrowsByOneAnRtt) {
  EXPECT_DOUBLE_EQ(rate(), 10'000);  // 1000 bytes in 100 ms (ERMCC 5)
  run(1.005);
  EXPECT_DOUBLE_EQ(rate(), 20 * 1'000 * 10 / 2 + 10'000);  // ten times s/RTT more
  EXPECT_FALSE(last_.cr_valid);
  EXPECT_EQ(last_.ask_share, wire::ErmccData::kAskAll);
}

TEST_F(ErmccSource, TheFirstFeedbackElectsItsSourceAndCuts) {
  run(1);
  const double before = rate();
  feedback(5, 40'000, 45'000, 1'000);
  EXPECT_TRUE(sender_.cr_valid());
  EXPECT_EQ(sender_.cr(), 5u);
  EXPECT_EQ(sender_.mu_hat(), 45'000);
  EXPECT_EQ(sender_.sigma_hat(), 1'000);
  EXPECT_DOUBLE_EQ(rate(), std::min(before, 0.75 * 40'000));
  EXPECT_EQ(traced("ermcc.cr", "reason"), static_cast<double>(Sender::Reason::kNoCr));
  EXPECT_NEAR(sender_.rtt().seconds(), 0.06, 1e-9);  // the packet 5 before the last: 6 * 10 ms
  const wire::ErmccData data = header();
  EXPECT_TRUE(data.cr_valid);
  EXPECT_EQ(data.cr, 5u);
  EXPECT_EQ(data.mu_hat, 45'000u);
  EXPECT_EQ(data.sigma_hat, 1'000u);
}

TEST_F(ErmccSource, OneCutAnRttAndNoneUpwards) {
  run(1);
  feedback(5, 40'000, 40'000, 0);
  run(0.02);
  feedback(5, 20'000, 20'000, 0, 0);
  EXPECT_DOUBLE_EQ(rate(), 30'000);  // within the RTT, so no cut; but mu is taken
  EXPECT_EQ(sender_.mu_hat(), 20'000);
  run(0.2);
  const double before = rate();
  feedback(5, 1'000'000, 20'000, 0, 0);
  EXPECT_DOUBLE_EQ(rate(), before);
}

TEST_F(ErmccSource, ASlowerReceiverBecomesCrAndOthersAreIgnored) {
  run(1);
  feedback(5, 40'000, 40'000, 2'000);
  run(1);  // the longer-RTT period, 2 RTTmax, is over
  const double before = rate();
  feedback(6, 10'000, 38'500, 0);  // not below 40000 - 2000
  EXPECT_EQ(sender_.cr(), 5u);
  EXPECT_DOUBLE_EQ(rate(), before);
  feedback(6, 10'000, 37'500, 0);
  EXPECT_EQ(sender_.cr(), 6u);
  EXPECT_DOUBLE_EQ(rate(), 7'500);
  EXPECT_EQ(traced("ermcc.cr", "reason"), static_cast<double>(Sender::Reason::kSlower));
}

TEST_F(ErmccSource, InTheLongerRttPeriodDistanceDecidesAmongSimilarOnes) {
  run(1);
  feedback(5, 40'000, 40'000, 2'000, 5);  // RTT 60 ms
  feedback(6, 40'000, 30'000, 2'000, 3);  // slower but nearer
  EXPECT_EQ(sender_.cr(), 5u);
  feedback(7, 40'000, 45'000, 2'000, 20);  // farther away, but faster by more than sigma
  EXPECT_EQ(sender_.cr(), 5u);
  feedback(8, 40'000, 41'000, 2'000, 10);  // farther away and similar
  EXPECT_EQ(sender_.cr(), 8u);
  EXPECT_NEAR(sender_.rtt().seconds(), 0.11, 1e-9);
  EXPECT_EQ(traced("ermcc.cr", "reason"), static_cast<double>(Sender::Reason::kLongerRtt));
  run(0.1);  // in the 200 ms that began with 5, which 8 did not restart
  feedback(9, 40'000, 38'000, 2'000, 15);
  EXPECT_EQ(sender_.cr(), 9u);
  run(0.11);
  feedback(10, 40'000, 38'000, 2'000, 30);
  EXPECT_EQ(sender_.cr(), 9u);  // the period is over: similar does not count as slower
}

TEST_F(ErmccSource, ASilentCrTurnsInactiveAfterTmaxAtTheFullBottleneck) {
  run(1);
  feedback(5, 40'000, 40'000, 2'000, 9);  // RTT 100 ms: T_max is 2 s before a sample
  Time full = Time::never();
  while (sender_.cr_valid() && now_ < Time::zero() + Duration::seconds(20)) {
    run(0.01);
    if (full.is_never() && rate() >= 48'000) full = now_;  // mu + 4 sigma
  }
  EXPECT_FALSE(sender_.cr_valid());
  EXPECT_NEAR((now_ - full).seconds(), 2, 0.12);  // an RTT's grain
  EXPECT_EQ(traced("ermcc.cr", "reason"), static_cast<double>(Sender::Reason::kSilent));
  EXPECT_FALSE(header().cr_valid);
  // Feedback from anybody is accepted now, including the old CR.
  feedback(5, 50'000, 50'000, 1'000);
  EXPECT_TRUE(sender_.cr_valid());
}

TEST_F(ErmccSource, TheResponseTimeIsLearntFromTheCr) {
  run(1);
  feedback(5, 40'000, 40'000, 2'000, 9);
  const auto until_full = [&] {
    do run(0.01);
    while (sink_.last_trace["ermcc.increase"]["full"] == 0);
  };
  until_full();
  run(0.5);
  feedback(5, 40'000, 40'000, 2'000, 0);
  EXPECT_NEAR(sender_.t_max().seconds(), 0.5 + 8 * 0.25, 0.05);  // E[T] + 8 T_sigma, first T/2
}

TEST_F(ErmccSource, TheCrsFarewellIsTakenAtOnceOthersAreNot) {
  run(1);
  feedback(5, 40'000, 40'000, 2'000);
  feedback(6, 0, 0, 0, 0, Kind::kLeave);
  EXPECT_TRUE(sender_.cr_valid());
  feedback(5, 0, 0, 0, 0, Kind::kLeave);
  EXPECT_FALSE(sender_.cr_valid());
  EXPECT_EQ(traced("ermcc.cr", "reason"), static_cast<double>(Sender::Reason::kLeft));
}

TEST_F(ErmccSource, DuplicatesAndWhatWasNeverSentAreRefused) {
  run(1);
  feedback(5, 40'000, 40'000, 2'000);
  run(1);
  feedback(5, 30'000, 30'000, 0, 7);
  const double after = rate();
  run(0.2);
  const double grown = rate();
  EXPECT_GT(grown, after);
  // The same packet again.
  const Bytes again = pack(wire::ErmccFeedback{9, Kind::kCongestion, 5, last_.seq - 27, 1, 1, 1});
  sender_.receive(now_, {again, 60, false, 5}, sink_);
  EXPECT_DOUBLE_EQ(rate(), grown);
  EXPECT_EQ(sender_.implausible(), 0u);
  feedback(5, 1, 1, 1, static_cast<std::uint32_t>(-1));  // the next packet
  feedback(5, 1, 1, 1, 100'000);                         // before the first packet
  EXPECT_EQ(sender_.invalid(), 0u);
  EXPECT_EQ(sender_.implausible(), 2u);
  EXPECT_DOUBLE_EQ(rate(), grown);
}

// The CR's path was well for a month, or the CR was away: its next report is no duplicate, though
// its number looks older than that of the last one.
TEST_F(ErmccSource, AReportAfterAnyNumberOfPacketsIsNoDuplicate) {
  for (const bool active : {true, false}) {
    SCOPED_TRACE(active);
    run(1);
    feedback(5, 40'000, 40'000, 2'000);
    if (!active) feedback(5, 0, 0, 0, 0, Kind::kLeave);
    ASSERT_EQ(sender_.cr_valid(), active);
    LongRun::pass(sender_, (std::uint64_t{1} << 31) + 1'000'000);
    run(1);
    feedback(5, 20'000, 20'000, 1'000);
    EXPECT_TRUE(sender_.cr_valid());
    EXPECT_DOUBLE_EQ(rate(), 0.75 * 20'000);
    run(1);
    const double grown = rate();
    feedback(5, 1, 1, 1, 105);  // the same packet again
    EXPECT_DOUBLE_EQ(rate(), grown);
  }
}

TEST_F(ErmccSource, TheRateHasAFloorAndACap) {
  run(1);
  feedback(5, 0, 0, 0);
  EXPECT_DOUBLE_EQ(rate(), 1'000 / (4 * sender_.max_rtt().seconds()));
  SessionConfig c = config({"ermcc.max_rate=20kbit/s"});
  Sender capped(c);
  capped.start(Time::zero(), sink_);
  capped.membership(Time::zero(), 0, sink_);
  EXPECT_DOUBLE_EQ(capped.rate().bits_per_second(), 20'000);
}

TEST_F(ErmccSource, StopsWithoutReceiversAndBeginsAnew) {
  run(1);
  feedback(5, 40'000, 40'000, 2'000);
  sender_.membership(now_, -1, sink_);
  EXPECT_EQ(sink_.rates[0], Rate::zero());
  EXPECT_TRUE(sender_.next_timer().is_never());
  now_ = now_ + Duration::seconds(5);
  sender_.membership(now_, 0, sink_);
  EXPECT_FALSE(sender_.cr_valid());
  EXPECT_DOUBLE_EQ(rate(), 10'000);
}

class ErmccPortions : public ErmccSource {
 protected:
  ErmccPortions() : ErmccSource({"ermcc.ask_fraction=0.25"}) {}
};
TEST_F(ErmccPortions, ThePortionAskedMovesEveryRtt) {
  const std::uint32_t first = header().ask_from;
  EXPECT_NEAR(header().ask_share / 4294967296.0, 0.25, 1e-6);
  run(0.21);
  EXPECT_NEAR((header().ask_from - first) / 4294967296.0, 0.5, 1e-6);  // two initial RTTs later
}

class ErmccAveragingSource : public ErmccSource {
 protected:
  ErmccAveragingSource() : ErmccSource({"ermcc.mu_at_source=1", "ermcc.alpha=0.125"}) {}
};
TEST_F(ErmccAveragingSource, MuIsTheSourcesAverageOfTheCrsTracs) {
  run(1);
  feedback(5, 40'000, 30'000, 0);
  run(0.1);
  feedback(5, 38'000, 1'000, 0, 0);
  EXPECT_DOUBLE_EQ(sender_.mu_hat(), 0.875 * 30'000 + 0.125 * 38'000);
}

TEST(ErmccSettings, RefusesLayersAndSharesOutsideTheirRange) {
  SessionConfig c = config();
  c.layers = 2;
  EXPECT_THROW(Sender{c}, ConfigError);
  EXPECT_THROW(config({"ermcc.beta=0.4"}), ConfigError);
  EXPECT_THROW(config({"ermcc.ask_fraction=0"}), ConfigError);
}

}  // namespace
}  // namespace tiercast::ermcc
