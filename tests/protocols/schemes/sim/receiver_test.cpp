#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "protocols/base/rng.h"
#include "protocols/schemes/sim/receiver.h"
#include "tests/protocols/rigs/recording_sink.h"

namespace tiercast::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Drives one receiver as a sender would: in each round a request is answered, and then the rate
// changes.
class SimReceiver : public testing::Test {
 protected:
  void make(unsigned layers, std::vector<std::string> set = {}) {
    set.insert(set.begin(),
               {"sim.add_after=3", "sim.drop_after=3", "sim.drop_loss=0.1", "sim.settle_epochs=0"});
    receiver_ = std::make_unique<Receiver>(sim_config(layers, set));
    receiver_->start(now_, sink_);
  }
  void packet(Rank rank, bool ce) {
    wire::SimData data;
    data.session = 9;
    data.rank = rank;
    data.rate_epoch = epoch_;
    data.seq = seq_[rank]++;
    data.fb_req = fb_req_;
    data.group_rate = rate_;
    std::array<std::byte, 972> message{};
    wire::write(data, message);
    now_ = now_ + Duration::milliseconds(10);
    receiver_->receive(now_, {message, 1000, ce, 1}, sink_);
  }
  // One round: the request reaches the receiver, then the adjusted rate, then packets of the new
  // epoch.
  void round(bool ce, int rate_change, unsigned lose = 0) {
    const Rank top = static_cast<Rank>(receiver_->counters().top);
    ++fb_req_;
    packet(top, ce);
    ++epoch_;
    rate_ = static_cast<std::uint32_t>(static_cast<int>(rate_) + rate_change);
    packet(top, ce);
    const Rank now_top = static_cast<Rank>(receiver_->counters().top);
    seq_[now_top] += lose;
    for (int i = 0; i < 3; ++i) packet(now_top, ce);
  }

  RecordingSink sink_;
  std::unique_ptr<Receiver> receiver_;
  Time now_ = at_ms(1000);
  std::uint32_t fb_req_ = 0xfffffffd;  // wraps during the tests
  std::uint16_t epoch_ = 0xfffe;
  std::uint32_t seq_[kMaxLayers] = {0xfffffff0, 5, 6, 7, 8, 9, 10, 11};
  std::uint32_t rate_ = 100'000;
};

TEST_F(SimReceiver, StartsWithTheBottomGroupAlone) {
  make(5);
  EXPECT_THAT(sink_.joined, ElementsAre(0));
  EXPECT_EQ(sink_.last_trace["subscription"]["top"], 0);
}

TEST_F(SimReceiver, AnswersEachRequestOnceAndANewcomerAfterTwoPackets) {
  make(5);
  packet(0, false);
  EXPECT_THAT(sink_.sent, IsEmpty());
  packet(0, false);
  ASSERT_EQ(sink_.sent.size(), 1u);
  EXPECT_EQ(sink_.feedback(0).hold_us, 10'000u);  // it saw the request one packet earlier
  EXPECT_EQ(sink_.feedback(0).source, 77u);
  for (int i = 0; i < 6; ++i) {
    ++fb_req_;  // past the wrap
    packet(0, false);
    packet(0, false);
  }
  ASSERT_EQ(sink_.sent.size(), 7u);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(sink_.feedback(i).fb_req, 0xfffffffdu + static_cast<std::uint32_t>(i));
    EXPECT_EQ(sink_.feedback(i).records[0].reports, 1u);
    EXPECT_EQ(sink_.feedback(i).records[0].receivers, 1u);
  }
  fb_req_ -= 1;  // an old number is not a request
  packet(0, false);
  EXPECT_EQ(sink_.sent.size(), 7u);
}

TEST_F(SimReceiver, ARestartedSendersRequestIsAnswered) {
  make(5);
  packet(0, false);
  packet(0, false);
  fb_req_ -= 1'000'000;
  packet(0, false);
  EXPECT_EQ(sink_.sent.size(), 2u);
}

TEST_F(SimReceiver, ReportsItsReceivedRateInIpBytes) {
  make(5);
  for (int i = 0; i < 10; ++i) round(false, 100);
  // A packet of 1000 bytes every 10 ms.
  EXPECT_NEAR(sink_.feedback(sink_.sent.size() - 1).records[0].min_cum_rate, 100'000, 1000);
  EXPECT_NEAR(receiver_->counters().rate.bytes_per_second(), 100'000, 1000);
  EXPECT_EQ(receiver_->counters().bytes, receiver_->counters().packets * 1000);
}

TEST_F(SimReceiver, AddsWhenTheRateFallsThreeTimesThoughItIsUncongested) {
  make(3);
  for (int i = 0; i < 10; ++i) round(false, +100);  // as it wants
  round(false, -100);
  round(false, -100);
  round(false, +100);
  EXPECT_THAT(sink_.joined, ElementsAre(0));
  round(false, -100);
  EXPECT_THAT(sink_.joined, ElementsAre(0, 1));
  EXPECT_EQ(receiver_->counters().top, 1);
}

TEST_F(SimReceiver, CutsCountFromWhenItWasLastCongested) {
  make(3);
  round(false, -100);
  round(false, -100);
  round(true, +100);
  round(false, -100);  // the answer to the congestion of the previous round
  round(false, -100);
  round(false, -100);
  EXPECT_THAT(sink_.joined, ElementsAre(0));
  round(false, -100);
  EXPECT_THAT(sink_.joined, ElementsAre(0, 1));
}

TEST_F(SimReceiver, ACongestedReceiverDoesNotAdd) {
  make(3);
  for (int i = 0; i < 5; ++i) round(true, -100);
  round(false, -100);
  round(false, -100);
  EXPECT_THAT(sink_.joined, ElementsAre(0));
}

TEST_F(SimReceiver, StaysAtTheHighestGroup) {
  make(2);
  for (int i = 0; i < 20; ++i) round(false, -100);
  EXPECT_EQ(receiver_->counters().top, 1);
  EXPECT_THAT(sink_.joined, ElementsAre(0, 1));
}

TEST_F(SimReceiver, DropsWhenCongestedThreeTimesUnlessTheRateFalls) {
  make(3);
  for (int i = 0; i < 4; ++i) round(false, -100);
  ASSERT_EQ(receiver_->counters().top, 1);
  for (int i = 0; i < 6; ++i)
    round(true, -100);  // the sender reduces the rate, so there is no
                        // reason to leave
  EXPECT_THAT(sink_.left, IsEmpty());
  round(true, +100);
  EXPECT_THAT(sink_.left, ElementsAre(1));
  EXPECT_EQ(receiver_->counters().top, 0);
}

TEST_F(SimReceiver, DropsWhenTheRateStaysAtItsFloor) {
  make(3);
  for (int i = 0; i < 4; ++i) round(false, -100);
  ASSERT_EQ(receiver_->counters().top, 1);
  for (int i = 0; i < 4; ++i) round(true, 0);
  EXPECT_THAT(sink_.left, ElementsAre(1));
}

TEST_F(SimReceiver, NeverLeavesTheBottomGroup) {
  make(3);
  for (int i = 0; i < 20; ++i) round(true, +100);
  EXPECT_THAT(sink_.left, IsEmpty());
}

TEST_F(SimReceiver, AnyLossIsCongestion) {
  make(3, {"sim.drop_loss=0.5"});
  for (int i = 0; i < 4; ++i) round(false, -100);
  ASSERT_EQ(receiver_->counters().top, 1);
  round(false, +100, 1);  // 1 of 5 packets
  EXPECT_EQ(receiver_->counters().lost, 1u);
  for (int i = 0; i < 2; ++i) round(false, +100, 1);
  EXPECT_EQ(sink_.feedback(sink_.sent.size() - 1).records[0].congested, 1u);
  EXPECT_THAT(sink_.left, IsEmpty());
  round(false, +100);  // the third congested notification is answered with a higher rate
  EXPECT_THAT(sink_.left, ElementsAre(1));
}

TEST_F(SimReceiver, LeavesALayerThatOverflowsTheQueueAtOnceEvenIfTheRateFalls) {
  make(3, {"sim.drop_loss=0.5"});
  for (int i = 0; i < 4; ++i) round(false, -100);
  ASSERT_EQ(receiver_->counters().top, 1);
  round(true, -100, 8);  // 8 of 12 packets
  EXPECT_THAT(sink_.left, IsEmpty());
  round(true, -100);
  EXPECT_THAT(sink_.left, ElementsAre(1));
}

TEST_F(SimReceiver, LeavesALayerThatHasServedAfterSeveralOverflows) {
  make(3, {"sim.drop_loss=0.5", "sim.drop_after=3", "sim.drop_after_loss=4"});
  for (int i = 0; i < 4; ++i) round(false, -100);
  for (int i = 0; i < 6; ++i) round(false, 0);  // 2 drop_after notifications
  ASSERT_EQ(receiver_->counters().top, 1);
  for (int i = 0; i < 4; ++i) round(true, -100, 8);
  EXPECT_THAT(sink_.left, IsEmpty());
  round(true, -100);
  EXPECT_THAT(sink_.left, ElementsAre(1));
}

TEST_F(SimReceiver, WaitsLongerForALayerThatItAddedInVain) {
  make(3, {"sim.drop_loss=0.5", "sim.add_backoff=2"});
  const auto rounds_until_added = [this] {
    const int top = receiver_->counters().top;
    int rounds = 0;
    for (; receiver_->counters().top == top; ++rounds) round(false, -100);
    return rounds;
  };
  const auto overflow = [this] {
    round(true, 0, 8);
    round(true, 0);
  };
  const int first = rounds_until_added();
  overflow();
  ASSERT_EQ(receiver_->counters().top, 0);
  EXPECT_EQ(rounds_until_added(), first + 3);  // 6 cuts, not 3
  overflow();
  EXPECT_EQ(rounds_until_added(), first + 9);   // 12
  for (int i = 0; i < 6; ++i) round(false, 0);  // it serves for 2 drop_after notifications
  overflow();  // then the network has changed, so there is no hurry
  ASSERT_EQ(receiver_->counters().top, 1);
  while (receiver_->counters().top == 1) round(true, 0);
  EXPECT_EQ(rounds_until_added(), first);
}

TEST_F(SimReceiver, SettlesAfterAChange) {
  const auto rounds_from_1_to_2 = [this](const char* settle) {
    make(3, {settle});
    while (receiver_->counters().top < 1) round(false, -100);
    int rounds = 0;
    for (; receiver_->counters().top < 2; ++rounds) round(false, -100);
    return rounds;
  };
  const int at_once = rounds_from_1_to_2("sim.settle_epochs=0");
  EXPECT_EQ(rounds_from_1_to_2("sim.settle_epochs=4"), at_once + 4);
}

TEST_F(SimReceiver, MarksOfLowerGroupsDoNotCount) {
  make(3);
  for (int i = 0; i < 4; ++i) round(false, -100);
  ASSERT_EQ(receiver_->counters().top, 1);
  for (int i = 0; i < 20; ++i) packet(0, true);
  ++fb_req_;
  packet(1, false);
  EXPECT_EQ(sink_.feedback(sink_.sent.size() - 1).records[0].congested, 0u);
}

TEST_F(SimReceiver, CongestedFromHalfOfThePackets) {
  make(3);
  packet(0, false);
  ++epoch_;
  for (int i = 0; i < 2; ++i) packet(0, true);
  for (int i = 0; i < 2; ++i) packet(0, false);
  ++fb_req_;
  packet(0, false);  // the request: 2 of 5
  EXPECT_EQ(sink_.feedback(sink_.sent.size() - 1).records[0].congested, 0u);
  packet(0, true);
  ++fb_req_;
  packet(0, true);  // 4 of 7
  EXPECT_EQ(sink_.feedback(sink_.sent.size() - 1).records[0].congested, 1u);
}

TEST_F(SimReceiver, SaysGoodbye) {
  make(3);
  for (int i = 0; i < 4; ++i) round(false, -100);
  sink_.sent.clear();
  receiver_->stop(now_, sink_);
  ASSERT_EQ(sink_.sent.size(), 1u);
  EXPECT_TRUE(sink_.feedback(0).records[0].bye());
  EXPECT_THAT(sink_.left, ElementsAre(1, 0));
  EXPECT_EQ(receiver_->counters().top, -1);
}

TEST_F(SimReceiver, ForgedPacketsAreCountedAndHarmless) {
  make(5);
  Rng rng(11);
  for (int i = 0; i < 50'000; ++i) {
    std::vector<std::byte> message(rng.below(60));
    for (std::byte& byte : message) byte = static_cast<std::byte>(rng.next());
    if (rng.uniform() < 0.7) {
      wire::SimData data;
      data.session = rng.uniform() < 0.9 ? 9 : 10;
      data.rank = static_cast<std::uint8_t>(rng.below(8));
      data.rate_epoch = static_cast<std::uint16_t>(rng.next());
      data.seq = static_cast<std::uint32_t>(rng.next());
      data.fb_req = static_cast<std::uint32_t>(rng.next());
      data.group_rate = static_cast<std::uint32_t>(rng.next());
      message.resize(32 + rng.below(10));
      wire::write(data, message);
    }
    const Time forged = Time::nanoseconds(static_cast<std::int64_t>(rng.below(2'000'000'000)));
    receiver_->receive(forged, {message, 1000, rng.uniform() < 0.5, 1}, sink_);
    ASSERT_GE(receiver_->counters().top, 0);
    ASSERT_LT(receiver_->counters().top, 5);
    ASSERT_GE(receiver_->counters().rate.bytes_per_second(), 0);
    ASSERT_TRUE(std::isfinite(receiver_->counters().rate.bytes_per_second()));
  }
  EXPECT_GT(receiver_->counters().invalid, 10'000u);
}

}  // namespace
}  // namespace tiercast::sim
