// Feedback aggregation (SIM 3.1): what goes in, what comes out, and when.
#include <algorithm>
#include <map>
#include <random>

#include "tests/p4src/aggregation_model.h"
#include "tests/p4src/bench.h"

namespace tiercast::p4test {
namespace {

constexpr std::uint64_t kSenderMac = 0x020000000002;
constexpr std::uint32_t kMaxRttUs = 50'000;  // the sender's estimate in its data

// The sender is behind port 1; children are behind ports 2 to 4.
class Aggregation : public SwitchTest {
 protected:
  Aggregation() {
    bench.host("10.0.0.2", kUp, kSenderMac);
    for (std::uint32_t session : {1u, 2u}) {
      for (std::uint32_t rank = 0; rank <= 7; ++rank) {
        bench.subscribe(group(session, rank), session << 3 | rank, {2, 3, 4});
      }
    }
    bench.aggregate(1, entry);
  }

  Packet data(std::uint32_t fb_req, std::uint32_t session = 1) {
    Packet packet = layer_packet(session, 0);
    const auto set = [&](std::size_t offset, std::uint32_t value) {
      for (unsigned i = 0; i < 4; ++i) {
        packet.payload[8 + offset + i] = static_cast<std::byte>(value >> (24 - 8 * i));
      }
    };
    set(12, seq++);
    set(20, fb_req);
    set(28, kMaxRttUs);
    return packet;
  }
  // What has left towards the sender since the last call.
  std::vector<Feedback> upstream() {
    std::vector<Feedback> out;
    for (const Frame& frame : bench.sent_on(kUp)) out.push_back(read_feedback(frame));
    bench.clear();
    return out;
  }
  void request(std::uint32_t fb_req) { bench.receive(kUp, data(fb_req)); }
  void answer(const Feedback& f, std::uint32_t port = 2) {
    bench.receive(port, feedback_packet(f));
  }
  static Feedback report(std::uint32_t source, std::uint32_t fb_req, std::uint32_t rank = 0,
                         std::uint32_t congested = 0, std::uint32_t rate = 1000) {
    return {1, source, fb_req, 0, 0, {{rank, 1, congested, rate, rate, 1}}};
  }
  // A round in which these sources answer 10 ms after the request. Then the time moves on by half a
  // second, and data arrives.
  std::vector<Feedback> round(std::uint32_t fb_req, const std::vector<std::uint32_t>& sources) {
    request(fb_req);
    bench.advance(10 * kMillisecond);
    for (std::uint32_t source : sources) answer(report(source, fb_req));
    bench.advance(500 * kMillisecond);
    request(fb_req);
    return upstream();
  }
  std::uint64_t count(std::string_view counter) { return bench.counter(counter, 5).packets; }

  const Aggregator entry;
  std::uint32_t seq = 0;
};

TEST_F(Aggregation, WithoutAnEntryFeedbackIsUnicastLikeAnyOther) {
  bench.no_aggregate(1);
  request(7);
  bench.clear();
  const Packet packet = feedback_packet(report(20, 7));
  bench.receive(2, packet);
  ASSERT_EQ(bench.ports_used(), std::vector<std::uint32_t>{kUp});
  EXPECT_EQ(ip_payload(bench.sent()[0].frame), packet.payload);
}

TEST_F(Aggregation, DataGoesItsWayUnchanged) {
  const Packet packet = data(7);
  bench.receive(kUp, packet);
  EXPECT_EQ(bench.ports_used(), (std::vector<std::uint32_t>{2, 3, 4}));
  for (const Sent& sent : bench.sent()) EXPECT_EQ(ip_payload(sent.frame), packet.payload);
}

// No child is known yet, so the first round lasts two of the sender's round-trip times. The summary
// leaves when a data packet shows that they are over.
TEST_F(Aggregation, TheFirstRoundEndsByTimeAndACopyOfDataBecomesTheSummary) {
  request(7);
  bench.advance(10 * kMillisecond);
  answer(report(20, 7, 2, 1, 3000));
  answer(report(21, 7, 2, 0, 5000));
  bench.advance_to(2 * kMaxRttUs * kMicrosecond - kMicrosecond);
  bench.clear();
  request(7);
  EXPECT_TRUE(bench.sent_on(kUp).empty()) << "1 us before its time";
  bench.advance(kMicrosecond);
  bench.clear();
  request(7);
  EXPECT_EQ(bench.sent_on(2).size(), 1u) << "the data itself";
  EXPECT_TRUE(bench.punted().empty());
  const auto out = upstream();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].session, 1u);
  EXPECT_EQ(out[0].source, entry.id);
  EXPECT_EQ(out[0].fb_req, 7u);
  EXPECT_EQ(out[0].hold_us, 2 * kMaxRttUs);
  EXPECT_EQ(out[0].subtree_rtt_us, 10'000u);
  EXPECT_EQ(out[0].records, (std::vector<Record>{{2, 2, 1, 3000, 5000, 2}}));
  request(7);
  EXPECT_TRUE(upstream().empty()) << "once for each request";
  EXPECT_EQ(count("summaries"), 1u);
  EXPECT_EQ(count("feedback_merged"), 2u);
}

TEST_F(Aggregation, ALaterRoundEndsWithTheLastChildsAnswer) {
  round(7, {20, 21, 22});
  request(8);
  bench.advance(10 * kMillisecond);
  answer(report(20, 8, 0, 1, 100), 2);
  answer(report(22, 8, 1, 0, 300), 4);
  EXPECT_TRUE(upstream().empty());
  bench.advance(2 * kMillisecond);
  answer(report(21, 8, 1, 1, 200), 3);
  const auto out = upstream();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].fb_req, 8u);
  EXPECT_EQ(out[0].hold_us, 12'000u);
  EXPECT_EQ(out[0].records, (std::vector<Record>{{0, 1, 1, 100, 100, 1}, {1, 2, 1, 200, 300, 2}}));
}

TEST_F(Aggregation, NothingUpstreamNamesAReceiver) {
  for (std::uint32_t fb_req : {7u, 8u}) {  // by a copy of data, by the last feedback
    request(fb_req);
    bench.advance(kMillisecond);
    bench.clear();
    for (std::uint32_t source : {20u, 21u}) {
      Packet packet = feedback_packet(report(source, fb_req));
      packet.dscp = 10;
      packet.ttl = 33;
      packet.payload[1] = std::byte{0x77};  // UDP source port
      Frame frame = packet.bytes();
      append(frame, 0x53454352, 4);  // bytes after the IPv4 packet
      bench.receive(2, frame);
    }
    bench.advance(500 * kMillisecond);
    request(fb_req);
    const auto frames = bench.sent_on(kUp);
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(read(frames[0], 0, 6), kSenderMac);
    EXPECT_EQ(read(frames[0], 6, 6), entry.mac);
    EXPECT_EQ(read(frames[0], 15, 1), 0u) << "DSCP and ECN";
    EXPECT_EQ(identification(frames[0]), 0u);
    EXPECT_EQ(ttl(frames[0]), 64u);
    EXPECT_EQ(read(frames[0], 26, 4), entry.address);
    EXPECT_EQ(dst(frames[0]), entry.parent);
    EXPECT_EQ(read(frames[0], 34, 2), 5501u);
    EXPECT_EQ(read(frames[0], 40, 2), 0u) << "UDP checksum";
    EXPECT_EQ(read_feedback(frames[0]).source, entry.id);
  }
}

TEST_F(Aggregation, EightGroupsInOneMessage) {
  round(7, {20, 21});
  request(8);
  Feedback first{1, 20, 8, 0, 0, {}}, second = first;
  second.source = 21;
  std::vector<Record> expected;
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    first.records.push_back({rank, 10 + rank, rank, 100 * rank, 200 * rank, 20 + rank});
    second.records.push_back({rank, 5, 5, 150 * rank, 190 * rank + 11, 5});
    expected.push_back(
        {rank, 15 + rank, 5 + rank, 100 * rank, std::max(200 * rank, 190 * rank + 11), 25 + rank});
  }
  answer(first);
  answer(second);
  const auto out = upstream();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].records, expected);
}

TEST_F(Aggregation, SumsStopAtTheirLargestValue) {
  round(7, {20, 21});
  request(8);
  for (std::uint32_t source : {20u, 21u}) {
    answer({1, source, 8, 0, 0, {{3, 0xfffffff0, 0x80000001, 1, 0xffffffff, 0xffffffff}}});
  }
  const auto out = upstream();
  ASSERT_EQ(out.size(), 1u);
  const std::uint32_t most = 0xffffffff;
  EXPECT_EQ(out[0].records, (std::vector<Record>{{3, most, most, 1, most, most}}));
}

TEST_F(Aggregation, RecordsWithoutReportsCountReceiversOnly) {
  round(7, {20, 21});
  request(8);
  answer({1, 20, 8, 0, 0, {{1, 0, 0, 5, 5, 4}, {2, 1, 0, 70, 70, 1}}});
  answer(report(21, 8, 1, 1, 900));
  const auto out = upstream();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].records, (std::vector<Record>{{1, 1, 1, 900, 900, 5}, {2, 1, 0, 70, 70, 1}}));
}

TEST_F(Aggregation, ALargerRequestNumberEmptiesTheCache) {
  round(7, {20, 21});
  request(8);
  answer(report(20, 8, 3, 1));
  request(9);
  answer(report(20, 9, 4, 0));
  answer(report(21, 9, 4, 0));
  const auto out = upstream();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].fb_req, 9u);
  EXPECT_EQ(out[0].records, (std::vector<Record>{{4, 2, 0, 1000, 1000, 2}}));
}

TEST_F(Aggregation, RequestNumbersCompareAsSerialNumbers) {
  std::uint32_t fb_req = 0xfffffffe;
  round(fb_req, {20});
  for (int i = 0; i < 4; ++i) {
    const auto out = round(++fb_req, {20});
    ASSERT_EQ(out.size(), 1u) << fb_req;
    EXPECT_EQ(out[0].fb_req, fb_req);
  }
  // An old, reordered packet changes nothing.
  request(fb_req + 1);
  bench.receive(kUp, data(fb_req));
  answer(report(20, fb_req + 1));
  EXPECT_EQ(upstream().at(0).fb_req, fb_req + 1);
  // A packet too far behind to be old comes from a sender that has restarted.
  round(fb_req - 5000, {20});
  EXPECT_EQ(round(fb_req - 4999, {20}).at(0).fb_req, fb_req - 4999);
}

TEST_F(Aggregation, LateFeedbackIsCountedAndNotMerged) {
  round(7, {20, 21});
  request(8);
  answer(report(20, 8));
  answer(report(21, 8));
  EXPECT_EQ(upstream().size(), 1u);
  answer(report(22, 8, 0, 1));  // a newcomer, after the summary
  EXPECT_EQ(count("feedback_late"), 1u);
  request(9);
  answer(report(21, 8, 0, 1));  // for the last round
  EXPECT_EQ(count("feedback_late"), 2u);
  for (std::uint32_t source : {20u, 21u, 22u}) answer(report(source, 9));
  const auto out = upstream();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].records, (std::vector<Record>{{0, 3, 0, 1000, 1000, 3}}));
}

TEST_F(Aggregation, AnAnswerCountsOnce) {
  round(7, {20, 21});
  request(8);
  for (int i = 0; i < 5; ++i) answer(report(20, 8, 0, 1));
  EXPECT_TRUE(upstream().empty());
  EXPECT_EQ(count("feedback_refused"), 4u);
  answer(report(21, 8));
  EXPECT_EQ(upstream().at(0).records, (std::vector<Record>{{0, 2, 1, 1000, 1000, 2}}));
}

TEST_F(Aggregation, FeedbackForARequestThatWasNeverMadeIsRefused) {
  answer(report(20, 7));
  round(7, {20});
  answer(report(20, 9));
  answer(report(20, 7 - 2000));
  EXPECT_EQ(count("feedback_refused"), 3u);
  EXPECT_TRUE(upstream().empty());
}

// The average of the maximum round-trip time, in real numbers: a larger sample counts at once, a
// smaller one with weight 1/4. What goes upstream is the larger of the average and this round's
// maximum.
TEST_F(Aggregation, MeasuresItsChildrensRoundTripTime) {
  std::mt19937 random(41);
  double average = 0;
  std::uint32_t fb_req = 100;
  for (int i = 0; i < 60; ++i, ++fb_req) {
    request(fb_req);
    EXPECT_NEAR(static_cast<double>(bench.cell("rtt_max", 5)) / 256, average, 3 / 256.0 + 1e-6)
        << "round " << i;
    std::uint32_t largest = 0, elapsed = 0;
    for (std::uint32_t source : {20u, 21u}) {
      const std::uint32_t step = 500 + draw(random, 40'000), hold = draw(random, 3000);
      const std::uint32_t below = source == 21 ? draw(random, 20'000) : 0;
      elapsed += step;
      bench.advance(step * kMicrosecond);
      Feedback f = report(source, fb_req);
      f.hold_us = std::min(hold, elapsed);
      f.subtree_rtt_us = below;
      answer(f);
      largest = std::max({largest, elapsed - f.hold_us + below, 100u});
    }
    if (i == 0) {
      bench.advance(500 * kMillisecond);
      request(fb_req);
    }
    const auto out = upstream();
    ASSERT_EQ(out.size(), 1u);
    EXPECT_NEAR(out[0].subtree_rtt_us, std::max<double>(average, largest), 1.1);
    average = std::max<double>(largest, average + (largest - average) / 4);
  }
}

TEST_F(Aggregation, ARoundLastsTwoMaximumRoundTripTimes) {
  round(7, {20, 21});  // 10 ms
  round(8, {20, 21});
  request(9);
  const std::int64_t start = bench.now();
  bench.advance(15 * kMillisecond);
  answer(report(20, 9));
  bench.advance_to(start + 20 * kMillisecond - kMicrosecond);
  request(9);
  EXPECT_TRUE(bench.sent_on(kUp).empty());
  bench.advance(kMicrosecond);
  bench.clear();
  request(9);
  const auto out = upstream();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].records, (std::vector<Record>{{0, 1, 0, 1000, 1000, 1}}));
  // Too late for the round, but it shows how long to wait for the others.
  bench.advance(20 * kMillisecond);
  answer(report(21, 9));
  request(10);
  EXPECT_EQ(bench.cell("rtt_max", 5), 40'000u * 256);
}

TEST_F(Aggregation, FeedbackSeveralRequestsLateStillTellsARoundTripTime) {
  round(7, {20});
  request(8);
  bench.advance(10 * kMillisecond);
  answer(report(20, 8));
  for (std::uint32_t fb_req = 9; fb_req <= 12; ++fb_req) {
    request(fb_req);
    bench.advance(100 * kMillisecond);
  }
  bench.clear();
  answer(report(20, 9));  // 400 ms
  EXPECT_EQ(bench.cell("rtt_largest_us", 5), 400'000u);
  EXPECT_EQ(count("feedback_late"), 1u);
}

TEST_F(Aggregation, RoundTripTimesAreBounded) {
  round(7, {20});
  Feedback f = report(20, 8);
  request(8);
  f.subtree_rtt_us = 0xffffffff;
  answer(f);
  EXPECT_EQ(bench.cell("rtt_largest_us", 5), 2'000'000u);
  request(9);
  f = report(20, 9);
  f.hold_us = 5;  // longer than the time since the request
  answer(f);
  EXPECT_EQ(bench.cell("rtt_largest_us", 5), 0u);
  request(10);
  answer(report(20, 10));
  EXPECT_EQ(bench.cell("rtt_largest_us", 5), 100u);
}

TEST_F(Aggregation, AChildIsForgottenAfterEightSilentRounds) {
  round(7, {20, 21});
  std::uint32_t fb_req = 8;
  for (int silent = 1; silent <= 8; ++silent, ++fb_req) {
    request(fb_req);
    for (int i = 0; i < 64; ++i) request(fb_req);  // each packet checks one cell
    bench.clear();
    answer(report(20, fb_req));
    EXPECT_TRUE(upstream().empty()) << "waits for the other one, silent for " << silent;
    EXPECT_EQ(bench.cell("round_children", 5), 2u);
    bench.advance(500 * kMillisecond);
    request(fb_req);
    EXPECT_EQ(upstream().size(), 1u);
  }
  for (int i = 0; i < 65; ++i) request(fb_req);
  EXPECT_EQ(bench.cell("round_children", 5), 1u);
  bench.clear();
  answer(report(20, fb_req));
  EXPECT_EQ(upstream().size(), 1u) << "at once";
}

TEST_F(Aggregation, AByeIsNotWaitedForAnyMore) {
  round(7, {20, 21});
  request(8);
  bench.clear();
  answer(report(20, 8));
  answer({1, 21, 8, 0, 0, {{2, 0, 0, 700, 900, 0}}});
  const auto out = upstream();
  ASSERT_EQ(out.size(), 1u) << "the BYE was what the round still waited for";
  EXPECT_EQ(out[0].records, (std::vector<Record>{{0, 1, 0, 1000, 1000, 1}}));
  EXPECT_EQ(bench.cell("round_children", 5), 1u);
}

TEST_F(Aggregation, TheLastChildsByeGoesOnInTheAggregatorsName) {
  round(7, {20});
  bench.clear();
  answer({1, 20, 7, 123, 0, {{2, 0, 0, 700, 900, 0}}});
  const auto out = upstream();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].source, entry.id);
  EXPECT_EQ(out[0].records, (std::vector<Record>{{2, 0, 0, 0, 0, 0}}));
  answer({1, 20, 7, 0, 0, {{2, 0, 0, 0, 0, 0}}});
  EXPECT_TRUE(upstream().empty()) << "once";
}

// 20 and 20 + 64 * 20 ^ .. fold into one cell: 0x14 and 0x14 << 6.
TEST_F(Aggregation, AChildWithoutACellIsMergedAndItsRoundsEndByTime) {
  constexpr std::uint32_t kOther = 0x14 << 6;
  round(7, {20, 21, kOther});
  for (std::uint32_t fb_req = 8; fb_req < 12; ++fb_req) {
    const auto out = round(fb_req, {20, kOther, 21});
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0].records, (std::vector<Record>{{0, 3, 0, 1000, 1000, 3}}));
    EXPECT_GE(out[0].hold_us, 20'000u - 1);
  }
  std::uint32_t fb_req = 12;
  for (; fb_req < 19; ++fb_req) round(fb_req, {20, 21});
  round(fb_req++, {20, 21});
  request(fb_req);
  bench.clear();
  answer(report(20, fb_req));
  answer(report(21, fb_req));
  EXPECT_EQ(upstream().size(), 1u) << "it has been silent for long: at once again";
}

TEST_F(Aggregation, SilenceGivesNoSummary) {
  round(7, {20});
  EXPECT_TRUE(round(8, {}).empty());
  EXPECT_EQ(round(9, {20}).size(), 1u);
}

TEST_F(Aggregation, ADataPacketFromBelowAsksForNothing) {
  round(7, {20});
  bench.receive(2, data(50));
  EXPECT_EQ(bench.cell("round_request", 5), 7u);
}

TEST_F(Aggregation, FeedbackFromUpstreamIsUnicast) {
  bench.host("10.0.0.2", 3, kSenderMac);
  round(7, {20});
  bench.receive(kUp, feedback_packet(report(30, 7)));
  ASSERT_EQ(bench.sent_on(3).size(), 1u);
  EXPECT_EQ(read_feedback(bench.sent_on(3)[0]).source, 30u);
}

TEST_F(Aggregation, SessionsDoNotMix) {
  Aggregator second = entry;
  second.slot = 6;
  second.id = 1002;
  bench.aggregate(2, second);
  round(7, {20, 21});
  bench.receive(kUp, data(7, 2));
  Feedback f = report(20, 7, 5);
  f.session = 2;
  answer(f);
  bench.advance(500 * kMillisecond);
  bench.clear();
  bench.receive(kUp, data(7, 2));
  const auto out = upstream();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].session, 2u);
  EXPECT_EQ(out[0].source, 1002u);
  EXPECT_EQ(out[0].records, (std::vector<Record>{{5, 1, 0, 1000, 1000, 1}}));
}

TEST_F(Aggregation, ASlotCanGoToAnotherSession) {
  round(7, {20, 21, 22});
  bench.no_aggregate(1);
  bench.aggregate(2, entry);
  const auto round_of_2 = [&](std::uint32_t fb_req) {
    bench.receive(kUp, data(fb_req, 2));
    Feedback f = report(21, fb_req);
    f.session = 2;
    answer(f);
  };
  round_of_2(7);
  EXPECT_EQ(bench.cell("round_children", 5), 1u);
  bench.advance(500 * kMillisecond);
  bench.receive(kUp, data(7, 2));
  EXPECT_EQ(upstream().size(), 1u);
  round_of_2(8);
  EXPECT_EQ(upstream().size(), 1u) << "of the other session's children none is waited for";
}

TEST_F(Aggregation, AHostReportsForOneReceiverAndASwitchForMany) {
  bench.guard(3, "10.0.9.30");
  request(8);
  std::vector<Feedback> of_many = {
      {1, 30, 8, 0, 0, {{1, 2, 1, 5, 6, 2}}},
      {1, 30, 8, 0, 0, {{1, 0, 0, 5, 6, 1'000'000}}},
      {1, 30, 8, 0, 0, {{1, 1, 0, 5, 6, 1}, {7, 1, 0, 5, 6, 1}}},
      {1, 30, 8, 0, 5000, {{1, 1, 0, 5, 6, 1}}},
  };
  for (const Feedback& f : of_many) answer(f, 3);
  EXPECT_EQ(count("feedback_refused"), 4u);
  answer(report(30, 8), 3);
  EXPECT_EQ(count("feedback_merged"), 1u);
  std::uint32_t source = 40;
  for (Feedback& f : of_many) {
    f.source = source++;
    answer(f, 2);
  }
  EXPECT_EQ(count("feedback_refused"), 4u);
  EXPECT_EQ(count("feedback_merged"), 5u);
}

TEST_F(Aggregation, UnsoundFeedbackIsRefusedWholly) {
  round(7, {20, 21});
  request(8);
  bench.clear();
  const auto refused = [&](const char* what, Packet packet) {
    const std::uint64_t before = count("feedback_refused");
    bench.receive(2, packet);
    EXPECT_TRUE(bench.sent().empty()) << what;
    EXPECT_EQ(count("feedback_refused"), before + 1) << what;
  };
  const auto changed = [&](std::size_t offset, std::uint8_t value) {
    Packet packet = feedback_packet({1, 20, 8, 0, 0, {{1, 2, 1, 5, 6, 2}, {2, 1, 1, 5, 6, 1}}});
    packet.payload.at(8 + offset) = std::byte{value};
    return packet;
  };
  refused("flags", changed(3, 1));
  refused("record_count", changed(24, 1));
  refused("record_count above 8", changed(24, 9));
  refused("header_length", changed(5, 53));
  refused("reserved", changed(27, 1));
  refused("reserved in a record", changed(31, 1));
  refused("rank above 7", changed(52, 8));
  refused("ranks not ascending", changed(52, 1));
  refused("congested above reports", changed(28 + 11, 3));
  refused("reports above receivers", changed(28 + 7, 3));
  refused("min above max", changed(28 + 15, 7));
  refused("cut off", [&] {
    Packet packet = changed(0, 1);
    packet.payload.resize(packet.payload.size() - 1);
    return packet;
  }());
  refused("bytes after the records", [&] {
    Packet packet = changed(0, 1);
    packet.payload.resize(packet.payload.size() + 1);
    return packet;
  }());
  EXPECT_EQ(bench.cell("round_answered", 5), 0u);
}

// An aggregator's summary is another aggregator's input.
TEST_F(Aggregation, AggregatorsFormATree) {
  Bench upper;
  upper.host("10.0.0.2", kUp, kSenderMac);
  upper.subscribe(group(1, 0), 8, {2, 3});
  Aggregator top = entry;
  top.id = 2001;
  upper.aggregate(1, top);
  std::vector<Feedback> at_sender;
  const auto relay = [&] {
    for (const Frame& frame : bench.sent_on(kUp)) upper.receive(2, frame);
    for (const Frame& frame : upper.sent_on(kUp)) at_sender.push_back(read_feedback(frame));
    bench.clear();
    upper.clear();
  };
  for (std::uint32_t fb_req = 7; fb_req < 14; ++fb_req) {
    for (int tick = 0; tick < 30; ++tick) {
      upper.advance(10 * kMillisecond);
      bench.advance(10 * kMillisecond);
      const Packet packet = data(fb_req);
      upper.receive(kUp, packet);
      bench.receive(kUp, packet);
      if (tick == 1) {
        for (std::uint32_t source : {20u, 21u, 22u}) answer(report(source, fb_req, source - 20));
        upper.receive(3, feedback_packet(report(40, fb_req, 2, 1, 50)));
      }
      relay();
    }
  }
  // In the first round, the upper aggregator's time is over when the lower one's is.
  ASSERT_EQ(at_sender.size(), 7u);
  at_sender.erase(at_sender.begin());
  for (const Feedback& f : at_sender) {
    EXPECT_EQ(f.source, 2001u);
    EXPECT_EQ(f.records,
              (std::vector<Record>{
                  {0, 1, 0, 1000, 1000, 1}, {1, 1, 0, 1000, 1000, 1}, {2, 2, 1, 50, 1000, 2}}));
  }
}

// Any feedback in any order: what leaves is the sum of what was merged, round by round.
TEST_F(Aggregation, RandomRoundsAddUp) {
  constexpr unsigned kSeed = 42;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  std::map<std::uint32_t, std::vector<Record>> merged;  // by request
  std::uint32_t fb_req = 0xfffffff0, summaries = 0;
  for (int round_number = 0; round_number < 300; ++round_number, ++fb_req) {
    request(fb_req);
    std::vector<std::uint32_t> sources;
    for (std::uint32_t source = 1; source <= 12; ++source) {
      if (random() % 8 != 0) sources.push_back(source);
    }
    std::shuffle(sources.begin(), sources.end(), random);
    for (std::uint32_t source : sources) {
      Feedback f{1, source, fb_req, 0, 0, {}};
      if (random() % 10 == 0) {  // late, because it was held
        f.fb_req = fb_req - 1;
        f.hold_us = 500'000;
      }
      for (std::uint32_t rank = 0; rank < 8; ++rank) {
        if (random() % 3 != 0) continue;
        Record r{.rank = rank};
        r.reports = draw(random, 5);
        r.min_cum_rate = draw(random, 1000);
        r.congested = draw(random, r.reports + 1);
        r.max_cum_rate = r.min_cum_rate + draw(random, 1000);
        r.receivers = r.reports + 1 + draw(random, 3);
        f.records.push_back(r);
      }
      const std::uint64_t before = count("feedback_merged");
      bench.advance(static_cast<std::int64_t>(random() % 9) * kMillisecond);
      answer(f, 2 + draw(random, 3));
      if (count("feedback_merged") > before) {
        auto& all = merged[f.fb_req];
        all.insert(all.end(), f.records.begin(), f.records.end());
      }
      if (random() % 4 == 0) request(fb_req);
    }
    bench.advance(500 * kMillisecond);
    request(fb_req);
    for (const Feedback& out : upstream()) {
      ++summaries;
      std::map<std::uint32_t, Record> sums;
      for (const Record& r : merged[out.fb_req]) {
        auto [at, first] = sums.try_emplace(r.rank, Record{r.rank, 0, 0, 0, 0, 0});
        Record& sum = at->second;
        if (r.reports > 0) {
          const bool none = sum.reports == 0;
          sum.min_cum_rate = none ? r.min_cum_rate : std::min(sum.min_cum_rate, r.min_cum_rate);
          sum.max_cum_rate = none ? r.max_cum_rate : std::max(sum.max_cum_rate, r.max_cum_rate);
        }
        sum.reports += r.reports;
        sum.congested += r.congested;
        sum.receivers += r.receivers;
      }
      std::vector<Record> expected;
      for (const auto& [rank, sum] : sums) expected.push_back(sum);
      EXPECT_EQ(out.records, expected) << "request " << out.fb_req;
      EXPECT_LE(out.hold_us, 700'000u);
    }
  }
  EXPECT_GT(summaries, 290u);
  EXPECT_LE(summaries, 300u);
}

}  // namespace
}  // namespace tiercast::p4test
