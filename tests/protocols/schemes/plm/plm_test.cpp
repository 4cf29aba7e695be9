// PLM: its sender's pairs and its receiver's levels, as ns-2's tcl/plm/plm.tcl has them.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "protocols/schemes/plm/receiver.h"
#include "protocols/schemes/plm/sender.h"
#include "tests/protocols/rigs/recording_sink.h"

namespace tiercast::plm {
namespace {

SessionConfig plm_config(unsigned layers = 8, const std::vector<std::string>& set = {}) {
  SessionConfig config = core_config("plm", layers, set);
  config.packet_size = 500;
  return config;
}

TEST(PlmSender, EveryLayerSendsPairsAtItsRate) {
  RecordingSink sink;
  Sender sender(plm_config(2));  // 20 kbit/s: a pair of 500 bytes each 400 ms
  sender.start(at_ms(0), sink);
  EXPECT_TRUE(sender.next_timer().is_never());
  sender.membership(at_ms(0), 1, sink);
  std::vector<std::byte> message(472);
  std::uint32_t packets = 0;
  Time now = at_ms(0);
  std::uint32_t seq = 0;
  while (now < at_ms(10'000)) {
    now = sender.next_timer();
    sender.timer(now, sink);
    for (; packets < sink.released[0]; ++packets) {
      ASSERT_EQ(sender.write_data(now, 0, message), wire::PlmData::kBytes);
      wire::PlmData data;
      ASSERT_EQ(wire::parse(message, data), wire::Error::kOk);
      EXPECT_EQ(data.pair, packets % 2 + 1);
      if (packets > 0) {
        EXPECT_EQ(data.seq, seq + 1);
      }
      seq = data.seq;
    }
  }
  EXPECT_NEAR(sink.released[0], 50, 2);
  EXPECT_NEAR(sink.released[1], 50, 2);
  sender.timer(at_ms(1e9), sink);
  EXPECT_LE(sink.released[0], packets + 2);  // a stall is not made up for
  EXPECT_GT(sender.next_timer(), at_ms(1e9));
  sender.receive(now, {std::vector<std::byte>(16), 44, false, 1}, sink);
  EXPECT_EQ(sender.invalid(), 1u);
  sender.stop(now, sink);
  EXPECT_TRUE(sender.next_timer().is_never());
}

class PlmReceiver : public testing::Test {
 protected:
  void begin(const std::vector<std::string>& set = {}) {
    receiver_ = std::make_unique<Receiver>(plm_config(8, set));
    receiver_->start(now_, sink_);
  }
  void packet(Rank rank, std::uint8_t pair, bool ce = false) {
    wire::PlmData data;
    data.session = 9;
    data.rank = rank;
    data.pair = pair;
    data.seq = seq_[rank]++;
    std::vector<std::byte> bytes(wire::PlmData::kBytes);
    wire::write(data, bytes);
    receiver_->receive(now_, {bytes, 500, ce, 1}, sink_);
  }
  // A pair of 500 bytes that left a queue with this share in kbit/s.
  void pair(double kbit, Rank rank = 0, bool ce = false) {
    packet(rank, 1, ce);
    now_ = now_ + Duration::seconds(4 / kbit);
    packet(rank, 2, ce);
  }
  void pass(double seconds) {
    const Time end = now_ + Duration::seconds(seconds);
    while (receiver_->next_timer() <= end) {
      now_ = std::max(now_, receiver_->next_timer());
      receiver_->timer(now_, sink_);
    }
    now_ = std::max(now_, end);
  }
  int level() const { return receiver_->counters().top + 1; }

  RecordingSink sink_;
  Time now_ = at_ms(1000);
  std::unique_ptr<Receiver> receiver_;
  std::array<std::uint32_t, kMaxLayers> seq_{0xfffffff0u};
};

// make_estimate: the period ends with the first pair after it, if there are three by then.
TEST_F(PlmReceiver, JoinsAsManyLayersAsTheLeastPairOfACheckPeriodAllows) {
  begin();
  EXPECT_EQ(level(), 1);
  pair(105);
  pass(1);
  pair(150);
  EXPECT_EQ(level(), 1);  // three are needed
  pass(3);
  pair(120);
  EXPECT_EQ(level(), 5);  // 5 x 20 < 105
  for (int i = 0; i < 4; ++i) pair(1000);
  EXPECT_EQ(level(), 5);  // not before the end of the next period
  pass(1);
  pair(1000);
  EXPECT_EQ(level(), 8);  // there are no more layers
  EXPECT_TRUE(sink_.sent.empty());
}

// stability-drop: to the number of cumulative rates below the share.
TEST_F(PlmReceiver, APairBelowItsRateTakesItDownAtOnce) {
  begin();
  for (int i = 0; i < 2; ++i) pair(150);
  pass(1);
  pair(150);
  ASSERT_EQ(level(), 7);
  pair(141, 3);
  EXPECT_EQ(level(), 7);
  pair(65, 2);
  EXPECT_EQ(level(), 3);
  pair(60.5);
  EXPECT_EQ(level(), 3);
  pair(150);
  pass(1);
  pair(150);
  EXPECT_EQ(level(), 3);  // 60.5 is the smallest share
}

TEST_F(PlmReceiver, WhoseShareIsLessThanOneLayerLeavesAndComesBack) {
  begin();
  pair(15);
  EXPECT_EQ(level(), 0);
  pass(29);
  EXPECT_EQ(level(), 0);
  pass(1.1);
  EXPECT_EQ(level(), 1);
}

TEST_F(PlmReceiver, BrokenPairsSayNothing) {
  begin();
  for (int i = 0; i < 5; ++i) {
    packet(0, 1);
    now_ = now_ + Duration::seconds(4);  // 1 kbit/s
    ++seq_[0];                           // the second is lost
    packet(0, 2);
    packet(0, 2);
  }
  EXPECT_LE(level(), 1);
  EXPECT_EQ(sink_.last_trace.count("plm.drop"), 0u);
  pass(1);
  EXPECT_LE(level(), 1);
}

// log-loss: counts begin with a loss, which itself does not count, and last 5 s; ten packets must
// have arrived since.
TEST_F(PlmReceiver, ATenthLostOfTenPacketsDropsOneLayer) {
  begin();
  for (int i = 0; i < 2; ++i) pair(150);
  pass(1);
  pair(150);
  ASSERT_EQ(level(), 7);
  seq_[0] += 50;
  pair(150);  // counts begin
  EXPECT_EQ(level(), 7);
  seq_[0] += 50;
  pair(150);
  EXPECT_EQ(level(), 7);  // of 2 packets that arrived
  for (int i = 0; i < 3; ++i) pair(150);
  seq_[0] += 1;
  pair(150);
  EXPECT_EQ(level(), 6);
  const Time dropped = now_;
  seq_[0] += 50;
  pair(150);
  for (int i = 0; i < 4; ++i) pair(150);
  ASSERT_LT(now_ - dropped, Duration::milliseconds(500));
  seq_[0] += 50;
  pair(150);
  EXPECT_EQ(level(), 6);  // losses do not count for half a second
  now_ = dropped + Duration::milliseconds(501);
  for (int i = 0; i < 5; ++i) pair(150);
  seq_[0] += 50;
  pair(150);
  EXPECT_EQ(level(), 5);
}

// The second packet of a pair is marked, and with it too many are. The pair does not take the
// receiver back at once.
TEST_F(PlmReceiver, WhoLeavesForMarksStaysAway) {
  begin({"plm.ecn=1", "plm.loss_packets=1"});
  for (int i = 0; i < 2; ++i) pair(30);
  pass(1.1);  // the check is due
  pair(30, 0, true);
  EXPECT_EQ(level(), 0);
  pass(29.9);
  EXPECT_EQ(level(), 0);
  pass(0.2);
  EXPECT_EQ(level(), 1);
  EXPECT_TRUE(receiver_->next_timer().is_never());
}

TEST_F(PlmReceiver, OldLossesAreForgotten) {
  begin();
  for (int i = 0; i < 2; ++i) pair(150);
  pass(1);
  pair(150);
  ASSERT_EQ(level(), 7);
  for (int i = 0; i < 5; ++i) {
    seq_[0] += 5;
    pair(150);
    for (int j = 0; j < 6; ++j) {
      packet(0, 1);  // no pairs, and so no checks
      now_ = now_ + Duration::milliseconds(900);
    }
  }
  EXPECT_EQ(level(), 7);
}

TEST(PlmState, DoesNotGrowWithTheNumberOfReceivers) {
  EXPECT_LE(sizeof(Sender), 512u);
  EXPECT_LE(sizeof(Receiver), 1024u);
}

}  // namespace
}  // namespace tiercast::plm
