// MLDA's sender and receiver cores, each on its own.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "protocols/schemes/mlda/receiver.h"
#include "protocols/schemes/mlda/sender.h"
#include "tests/protocols/rigs/core_rig.h"
#include "tests/protocols/rigs/recording_sink.h"

namespace tiercast::mlda {
namespace {

struct Sent {
  Destination to;
  std::vector<std::byte> message;
};

struct MldaSink : RecordingSink {
  void send(Destination to, std::span<const std::byte> message) override {
    out.push_back({to, {message.begin(), message.end()}});
  }
  // The messages of one kind sent since the last call of clear().
  template <class Message>
  std::vector<Message> all() const {
    std::vector<Message> found;
    for (const Sent& one : out) {
      Message message;
      if (wire::parse(one.message, message) == wire::Error::kOk) found.push_back(message);
    }
    return found;
  }
  void clear() {
    out.clear();
    joined.clear();
    left.clear();
    released.clear();
  }
  std::vector<Sent> out;
};

SessionConfig mlda_config(unsigned layers = 3, const std::vector<std::string>& set = {}) {
  return core_config("mlda", layers, set);
}

template <class Message>
std::vector<std::byte> bytes_of(const Message& message) {
  std::vector<std::byte> bytes(1000 - kIpUdpHeaderBytes);
  const std::size_t length = wire::write(message, bytes);
  EXPECT_GT(length, 0u);
  bytes.resize(length);
  return bytes;
}

double kbit_of(std::uint32_t bytes_per_second) { return bytes_per_second * 8e-3; }
std::uint32_t from_kbit(double kbit) { return static_cast<std::uint32_t>(kbit * 125); }

class MldaSender : public testing::Test {
 protected:
  void begin(const SessionConfig& config = mlda_config()) {
    sender_ = std::make_unique<Sender>(config);
    sender_->start(now_, sink_);
    sender_->membership(now_, 0, sink_);
  }
  // Runs until the next sender report and returns it.
  wire::MldaSenderReport next_report() {
    sink_.clear();
    while (sink_.all<wire::MldaSenderReport>().empty()) {
      now_ = std::max(now_, sender_->next_timer());
      sender_->timer(now_, sink_);
    }
    last_ = sink_.all<wire::MldaSenderReport>().back();
    return last_;
  }
  void report(double kbit, std::uint32_t source = 1, std::uint8_t rank = 0) {
    wire::MldaReceiverReport report;
    report.session = 9;
    report.rank = rank;
    report.source = source;
    report.sr_seq = last_.sr_seq;
    report.rate = from_kbit(kbit);
    report.rtt_us = 100'000 + source;
    report.rx_time_us = 5;
    receive(report);
  }
  template <class Message>
  void receive(const Message& message) {
    const auto bytes = bytes_of(message);
    sender_->receive(now_, {bytes, 64, false, 5}, sink_);
  }

  Time now_ = Time::zero() + Duration::seconds(5);
  MldaSink sink_;
  std::unique_ptr<Sender> sender_;
  wire::MldaSenderReport last_;
};

TEST_F(MldaSender, ReportsEveryControlIntervalAndABit) {
  begin();
  const Time began = now_;
  next_report();
  EXPECT_LE(now_ - began, Duration::seconds(1));
  EXPECT_EQ(last_.record_count, 1u);
  EXPECT_EQ(kbit_of(last_.rate[0]), 100);
  double least = 99, most = 0;
  for (int i = 0; i < 100; ++i) {
    const Time then = now_;
    const std::uint32_t seq = last_.sr_seq;
    next_report();
    EXPECT_EQ(last_.sr_seq, seq + 1);
    least = std::min(least, (now_ - then).seconds());
    most = std::max(most, (now_ - then).seconds());
  }
  EXPECT_GE(least, 10);
  EXPECT_LE(most, 10.5);
  EXPECT_GT(most - least, 0.4);  // p spreads over its range
}

TEST_F(MldaSender, ShapesItsLayersByTheReportsOfTheCycle) {
  begin();
  next_report();
  report(200, 1);
  report(1000, 2);
  report(600, 3);
  next_report();
  ASSERT_EQ(last_.record_count, 3u);  // 200, then (0.9 * 1000 - 200) / 2 twice
  EXPECT_NEAR(kbit_of(last_.rate[0]), 200, 0.01);
  EXPECT_NEAR(kbit_of(last_.rate[1]), 350, 0.01);
  EXPECT_NEAR(kbit_of(last_.rate[2]), 350, 0.01);
  EXPECT_EQ(last_.max_rtt_us, 100'003u);
  // Layers are sent when somebody listens.
  EXPECT_EQ(sink_.rates[1], Rate::zero());
  sender_->membership(now_, 2, sink_);
  EXPECT_NEAR(sink_.rates[1].bits_per_second(), 350e3, 10);
  // The slow receiver has left, and the next cycle knows nothing of it.
  report(1000, 2);
  report(600, 3);
  next_report();
  EXPECT_NEAR(kbit_of(last_.rate[0]), 600, 0.01);
}

TEST_F(MldaSender, CutsTheBaseLayerAtOnce) {
  begin();
  next_report();
  report(500);
  next_report();
  report(510);
  EXPECT_NEAR(sender_->layering().rate[0].bits_per_second(), 500e3, 10);
  report(300);
  EXPECT_NEAR(sender_->layering().rate[0].bits_per_second(), 300e3, 10);
  EXPECT_EQ(sink_.last_trace["mlda.cut"]["receiver"], 1);
  report(0);  // no lower than R_min
  EXPECT_NEAR(sender_->layering().rate[0].bits_per_second(), 20e3, 10);
}

TEST_F(MldaSender, HalvesAfterThreeSilentCycles) {
  begin();
  next_report();
  report(400);
  next_report();
  for (int i = 0; i < 2; ++i) next_report();
  EXPECT_NEAR(kbit_of(last_.rate[0]), 400, 0.01);
  next_report();
  EXPECT_NEAR(kbit_of(last_.rate[0]), 200, 0.01);
  next_report();
  EXPECT_NEAR(kbit_of(last_.rate[0]), 100, 0.01);
  for (int i = 0; i < 20; ++i) next_report();
  EXPECT_NEAR(kbit_of(last_.rate[0]), 20, 0.01);
}

TEST_F(MldaSender, RepeatsReportsOnTheLayerTheyName) {
  begin(mlda_config(3, {"mlda.max_reflections=2"}));
  next_report();
  sink_.clear();
  report(150, 8, 2);
  ASSERT_EQ(sink_.out.size(), 1u);
  EXPECT_EQ(sink_.out[0].to.kind, Destination::Kind::kGroup);
  EXPECT_EQ(sink_.out[0].to.rank, 2);
  const wire::MldaReflection reflection = sink_.all<wire::MldaReflection>().at(0);
  EXPECT_EQ(reflection.source, 8u);
  EXPECT_EQ(reflection.rx_time_us, 5u);
  EXPECT_EQ(reflection.rate, from_kbit(150));
  for (int i = 0; i < 10; ++i) report(150, 9);
  EXPECT_EQ(sink_.out.size(), 2u);  // the limit of a cycle
  next_report();
  report(150, 9);
  EXPECT_EQ(sink_.all<wire::MldaReflection>().size(), 1u);
}

TEST_F(MldaSender, PairsAreBackToBackAndPartOfTheRate) {
  begin();
  EXPECT_NEAR(sink_.rates[0].bits_per_second(), 100e3 - 16e3, 1);  // two of 1000 B per second
  for (int i = 0; i < 3; ++i) {
    const Time then = now_;
    do {
      now_ = sender_->next_timer();
      sink_.clear();
      sender_->timer(now_, sink_);
    } while (sink_.released[0] == 0);
    EXPECT_EQ(now_ - then, Duration::seconds(1));
    EXPECT_EQ(sink_.released[0], 2u);
    std::vector<std::byte> message(972);
    std::vector<int> pairs;
    std::vector<std::uint32_t> seqs;
    for (int n = 0; n < 3; ++n) {
      ASSERT_EQ(sender_->write_data(now_, 0, message), wire::MldaData::kBytes);
      wire::MldaData data;
      ASSERT_EQ(wire::parse(message, data), wire::Error::kOk);
      pairs.push_back(data.pair);
      seqs.push_back(data.seq);
    }
    EXPECT_EQ(pairs, (std::vector<int>{1, 2, 0}));
    EXPECT_EQ(seqs[1], seqs[0] + 1);
  }
  // At the lowest rate pairs become rarer: they are at most half of the packets.
  next_report();
  report(0);
  EXPECT_NEAR(sink_.rates[0].bits_per_second(), 10e3, 1);
}

TEST_F(MldaSender, RefusesWhatWasNotAskedFor) {
  begin();
  report(100);  // sr_seq 0 belongs to no report that was sent
  EXPECT_EQ(sender_->invalid() + sender_->implausible(), 1u);
  next_report();
  const std::uint64_t implausible = sender_->implausible();
  ++last_.sr_seq;
  report(100);
  EXPECT_EQ(sender_->implausible(), implausible + 1);
  --last_.sr_seq;
  const std::uint64_t invalid = sender_->invalid();
  report(100, 1, 3);  // a session of three layers has no rank 3
  EXPECT_EQ(sender_->invalid(), invalid + 1);
  wire::MldaReceiverReport other;
  other.session = 10;
  other.sr_seq = last_.sr_seq;
  receive(other);
  receive(last_);  // its own
  EXPECT_EQ(sender_->invalid(), invalid + 3);
  report(100);
  EXPECT_EQ(sender_->invalid(), invalid + 3);
  EXPECT_EQ(sender_->write_data(now_, 1, std::span<std::byte>()), 0u);
  std::array<std::byte, 10> small;
  EXPECT_EQ(sender_->write_data(now_, 0, small), 0u);
}

TEST_F(MldaSender, StopsWithTheLastReceiverAndBeginsAnew) {
  begin();
  next_report();
  report(900);
  next_report();
  sender_->membership(now_, -1, sink_);
  EXPECT_EQ(sink_.rates[0], Rate::zero());
  EXPECT_TRUE(sender_->next_timer().is_never());
  sender_->membership(now_, 0, sink_);
  next_report();
  EXPECT_NEAR(kbit_of(last_.rate[0]), 100, 0.01);
}

class MldaReceiver : public testing::Test {
 protected:
  void begin(const SessionConfig& config = mlda_config()) {
    receiver_ = std::make_unique<Receiver>(config);
    receiver_->start(now_, sink_);
  }
  void run_until(Time end) {
    while (receiver_->next_timer() <= end) {
      now_ = std::max(now_, receiver_->next_timer());
      receiver_->timer(now_, sink_);
    }
    now_ = end;
  }
  void run_for(double seconds) { run_until(now_ + Duration::seconds(seconds)); }
  template <class Message>
  void receive(const Message& message, std::uint32_t ip_length = 1000, bool ce = false) {
    const auto bytes = bytes_of(message);
    receiver_->receive(now_, {bytes, ip_length, ce, 1}, sink_);
  }
  // A report with layers of these rates in kbit/s.
  void sender_report(const std::vector<double>& kbit, std::uint32_t max_rtt_us = 0) {
    wire::MldaSenderReport report;
    report.session = 9;
    report.record_count = static_cast<std::uint8_t>(kbit.size());
    report.sr_seq = ++sr_seq_;
    report.max_rtt_us = max_rtt_us;
    for (std::size_t k = 0; k < kbit.size(); ++k) report.rate[k] = from_kbit(kbit[k]);
    receive(report);
  }
  // `seconds` of one layer at `kbit`, with every `lose_each`-th packet lost or marked (0: none).
  void data(Rank rank, double kbit, double seconds, unsigned lose_each = 0, bool mark = false) {
    const auto packets = static_cast<unsigned>(std::lround(kbit * seconds / 8));
    for (unsigned i = 1; i <= packets; ++i) {
      run_for(seconds / packets);
      wire::MldaData packet;
      packet.session = 9;
      packet.rank = rank;
      packet.seq = seq_[rank]++;
      packet.tx_time_us = static_cast<std::uint32_t>(now_.ns() / 1000) - one_way_us_;
      const bool hit = lose_each > 0 && i % lose_each == 0;
      if (hit && !mark) continue;
      receive(packet, 1000, hit);
    }
  }
  wire::MldaReceiverReport reported() {
    const auto reports = sink_.all<wire::MldaReceiverReport>();
    EXPECT_EQ(reports.size(), 1u);
    return reports.empty() ? wire::MldaReceiverReport{} : reports[0];
  }
  wire::MldaReflection reflection(double kbit, bool asks_rtt, std::uint32_t source = 5) {
    wire::MldaReflection reflection;
    reflection.session = 9;
    reflection.asks_rtt = asks_rtt;
    reflection.source = source;
    reflection.sr_seq = sr_seq_;
    reflection.rate = from_kbit(kbit);
    return reflection;
  }
  // Gives the receiver a round-trip time of `ms`.
  void echo(double ms) {
    wire::MldaReflection own = reflection(0, true, 77);
    own.rx_time_us = reported().rx_time_us;
    own.tx_time_us = own.rx_time_us + static_cast<std::uint32_t>(ms * 1e3) - one_way_us_;
    const Time then = now_;
    now_ = sent_at() + Duration::seconds(ms * 1e-3);
    receive(own);
    now_ = std::max(now_, then);
  }
  Time sent_at() { return Time::zero() + Duration::microseconds(reported().rx_time_us); }

  static constexpr double kObservation = 7.0 / 3;
  static constexpr double kPast = 0.01;  // just after an instant
  Time now_ = Time::zero() + Duration::seconds(100);
  std::uint32_t one_way_us_ = 40'000;
  MldaSink sink_;
  std::unique_ptr<Receiver> receiver_;
  std::uint32_t sr_seq_ = 0xffffffff;  // wraps
  std::array<std::uint32_t, kMaxLayers> seq_{};
};

TEST_F(MldaReceiver, ObservesThenReportsWithinTheSpread) {
  begin();
  EXPECT_EQ(sink_.joined, std::vector<Rank>{0});
  data(0, 100, 3);
  EXPECT_TRUE(receiver_->next_timer().is_never());  // no sender report, so nothing to answer
  sender_report({100});
  const Time began = now_;
  data(0, 100, kObservation + kPast);
  EXPECT_TRUE(sink_.all<wire::MldaReceiverReport>().empty());
  const Time due = receiver_->next_timer();
  EXPECT_GE(due, began + Duration::seconds(kObservation));
  EXPECT_LE(due, began + Duration::seconds(kObservation + 1.5));
  run_until(due);
  const wire::MldaReceiverReport report = reported();
  EXPECT_EQ(report.source, 77u);
  EXPECT_EQ(report.sr_seq, sr_seq_);
  EXPECT_EQ(report.loss, 0u);
  EXPECT_TRUE(report.asks_rtt);
  EXPECT_EQ(report.rtt_us, 0u);
  // 28 packets in the window are 96 kbit/s. The bottleneck is not known, so A_exp is (1 - 1/e) of
  // that.
  EXPECT_NEAR(kbit_of(report.rate), 96 * (2 - std::exp(-1)), 0.1);
}

TEST_F(MldaReceiver, LossIsThatOfItsWindowAlone) {
  begin();
  data(0, 1000, 1, 2);  // half is lost before the window
  sender_report({1000}, 100'000);
  data(0, 1000, kObservation, 25);
  run_for(kPast);
  data(0, 1000, 0.3, 2);  // and after it: failed joins of others
  run_for(2);
  const wire::MldaReceiverReport report = reported();
  EXPECT_NEAR(report.loss / 4294967295.0, 0.04, 0.005);
  // r (1 - sqrt(0.04)) = 0.8 of the 960 kbit/s received; TCP's share is smaller.
  EXPECT_NEAR(kbit_of(report.rate), 768, 30);
}

TEST_F(MldaReceiver, AMarkCountsAsALoss) {
  for (const bool ecn : {true, false}) {
    sink_.clear();
    begin(mlda_config(3, {ecn ? "mlda.ecn=1" : "mlda.ecn=0"}));
    sender_report({1000}, 100'000);
    data(0, 1000, kObservation, 25, true);
    run_for(2);
    EXPECT_NEAR(reported().loss / 4294967295.0, ecn ? 0.04 : 0, 0.005);
  }
}

TEST_F(MldaReceiver, JoinsAtTheEndOfItsWindowAndLeavesAfterTheNext) {
  begin();
  sink_.clear();
  sender_report({100, 50, 500});
  data(0, 100, kObservation - 0.1);
  EXPECT_TRUE(sink_.joined.empty());
  data(0, 100, 0.1);
  run_for(kPast);
  EXPECT_EQ(sink_.joined, std::vector<Rank>{1});  // 157 >= 100 + 50, and < 650
  // There are two layers now, and a quarter is lost. TCP at a round trip of 0.5 s gets far less
  // than 150 kbit/s.
  data(0, 200, kObservation / 2, 4);
  data(1, 100, kObservation / 2 - 0.1, 4);
  run_for(2);
  EXPECT_EQ(sink_.left, std::vector<Rank>{1});
  EXPECT_EQ(reported().rank, 0);
  EXPECT_EQ(receiver_->counters().top, 0);
}

TEST_F(MldaReceiver, LeavesLayersThatAreNoLongerSent) {
  begin();
  sender_report({100, 50, 500});
  data(0, 100, kObservation);
  run_for(kPast);
  ASSERT_EQ(receiver_->counters().top, 1);
  sender_report({100});
  EXPECT_EQ(receiver_->counters().top, 0);
}

TEST_F(MldaReceiver, ASimilarReportSuppressesItsOwn) {
  begin();
  sender_report({100});
  data(0, 100, kObservation);
  run_for(kPast);
  const double own = receiver_->share().bits_per_second() / 1000;
  receive(reflection(own * 1.25, true));  // two subintervals away
  receive(reflection(own, false));        // of one that knows its round-trip time
  wire::MldaReflection old = reflection(own, true);
  --old.sr_seq;
  receive(old);  // of the previous cycle
  EXPECT_LE(receiver_->next_timer(), now_ + Duration::seconds(1.5));
  receive(reflection(own, true));
  run_for(5);
  EXPECT_TRUE(sink_.all<wire::MldaReceiverReport>().empty());
  EXPECT_EQ(sink_.last_trace["mlda.report"]["suppressed_by"], 5);
}

TEST_F(MldaReceiver, MeasuresItsRoundTripTimeByItsOwnEcho) {
  for (const std::uint32_t one_way_us : {40'000u, 3'000'000'000u}) {  // clocks with any offset
    one_way_us_ = one_way_us;
    sink_.clear();
    begin();
    sender_report({100});
    data(0, 100, kObservation);
    run_for(2);
    echo(80);
    ASSERT_TRUE(receiver_->rtt().valid());
    EXPECT_NEAR(receiver_->rtt().rtt().seconds(), 0.08, 1e-5);
    echo(300);  // a second echo of the same report is ignored
    EXPECT_NEAR(receiver_->rtt().rtt().seconds(), 0.08, 1e-5);
    one_way_us_ += 20'000;  // a queue builds up on the way down
    data(0, 100, 20);
    EXPECT_NEAR(receiver_->rtt().rtt().seconds(), 0.1, 1e-3);
    sink_.clear();
    sender_report({100});
    data(0, 100, kObservation);
    run_for(2);
    EXPECT_FALSE(reported().asks_rtt);
    EXPECT_NEAR(reported().rtt_us, 100e3, 1e3);
  }
}

// Its clock is another one, and the change of the one-way delay would be that of the clocks.
TEST_F(MldaReceiver, ARestartedSendersRoundTripIsMeasuredAnew) {
  begin();
  sender_report({100});
  data(0, 100, kObservation);
  run_for(2);
  echo(80);
  ASSERT_TRUE(receiver_->rtt().valid());
  seq_[0] += 1u << 30;
  sr_seq_ += 1u << 30;
  one_way_us_ += 1'000'000'000;
  data(0, 100, 1);
  EXPECT_FALSE(receiver_->rtt().valid());
  sink_.clear();
  sender_report({100});
  data(0, 100, kObservation);
  run_for(2);
  EXPECT_TRUE(reported().asks_rtt);
  EXPECT_EQ(reported().rtt_us, 0u);
  echo(60);
  data(0, 100, 1);
  EXPECT_NEAR(receiver_->rtt().rtt().seconds(), 0.06, 1e-5);
}

TEST_F(MldaReceiver, ObservesWithoutASenderReportAfterTheTimeout) {
  begin();
  sender_report({100});
  data(0, 100, 14.9);
  EXPECT_EQ(sink_.all<wire::MldaReceiverReport>().size(), 1u);
  sink_.clear();
  data(0, 100, 0.1 + kObservation + 1.5 + kPast, 10);
  EXPECT_GT(reported().loss, 0u);
  EXPECT_EQ(reported().sr_seq, sr_seq_);
  sink_.clear();
  data(0, 100, 15);  // and again
  EXPECT_EQ(sink_.all<wire::MldaReceiverReport>().size(), 1u);
}

TEST_F(MldaReceiver, ALaterSenderReportCancelsWhatWasScheduled) {
  begin();
  sender_report({100});
  data(0, 100, kObservation + kPast);
  sender_report({100});
  const Time began = now_;
  data(0, 100, kObservation - kPast);
  EXPECT_TRUE(sink_.all<wire::MldaReceiverReport>().empty());
  run_for(2);
  EXPECT_EQ(reported().sr_seq, sr_seq_);
  EXPECT_GE(sent_at(), began + Duration::seconds(kObservation));
  // A repeated report does not.
  --sr_seq_;
  sink_.clear();
  sender_report({100});
  data(0, 100, 5);
  EXPECT_TRUE(sink_.all<wire::MldaReceiverReport>().empty());
}

TEST_F(MldaReceiver, NeverLeavesTheBaseLayerUntilItStops) {
  begin();
  for (int i = 0; i < 5; ++i) {
    sender_report({1000});
    data(0, 1000, 10, 2);
  }
  EXPECT_EQ(receiver_->counters().top, 0);
  EXPECT_TRUE(sink_.left.empty());
  receiver_->stop(now_, sink_);
  EXPECT_EQ(sink_.left, std::vector<Rank>{0});
  EXPECT_TRUE(receiver_->next_timer().is_never());
  sender_report({1000});
  EXPECT_TRUE(receiver_->next_timer().is_never());
}

// MLDA III-C: for lambda = 10 and T_rand = 5 c (1.5 s and 0.3 s), 10,000 receivers send fewer than
// ten reports per event. PROTOCOLS 13.5 allows 15.
TEST(MldaSuppression, TenThousandReceiversSendAHandfulOfReports) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    RigConfig config;
    config.scheme = "mlda";
    config.seed = seed;
    config.receivers = 10'000;
    config.delay = Duration::milliseconds(150);  // 0.3 s from receiver to receiver
    config.set = {"mlda.initial_rate=40kbit/s"};
    Rig rig(config);
    rig.start();
    for (int event = 0; event < 2; ++event) {
      const std::uint64_t before = rig.feedback();
      rig.run_for(Duration::seconds(event == 0 ? 8 : 9));
      const std::uint64_t reports = rig.feedback() - before;
      std::printf("seed %lu: %lu reports of 10000 receivers\n", static_cast<unsigned long>(seed),
                  static_cast<unsigned long>(reports));
      EXPECT_GE(reports, 1u);
      EXPECT_LE(reports, 15u);
    }
    EXPECT_EQ(rig.sender().invalid(), 0u);
  }
}

// O(1): the sender keeps no members, whatever their number, and a receiver keeps no other
// receivers.
TEST(MldaState, DoesNotGrowWithTheNumberOfReceivers) {
  EXPECT_LE(sizeof(Sender), 1024u);
  EXPECT_LE(sizeof(Receiver), 2048u);  // plus 100 samples of packet pairs, allocated once
}

}  // namespace
}  // namespace tiercast::mlda
