// RLA's rules one by one: what a loss does to the window, who has which packet, the messages.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "protocols/common/id_table.h"
#include "protocols/schemes/rla/listening.h"
#include "protocols/schemes/rla/messages.h"
#include "protocols/schemes/rla/rla.h"
#include "protocols/schemes/rla/scoreboard.h"

namespace tiercast::rla {
namespace {

using Reaction = RandomListening::Reaction;

Settings settings(const std::vector<std::string>& set = {}) {
  SessionConfig config;
  config.parameters = Parameters(parameter_list());
  for (const std::string& assignment : set) config.parameters.set(assignment);
  return Settings::from(config);
}
constexpr Duration kRtt = Duration::milliseconds(100);
Time at(double seconds) { return Time::zero() + Duration::seconds(seconds); }

TEST(RlaListening, LossesWithinTwoRoundTripsAreOneSignal) {
  RandomListening rla(settings(), 1);
  Listener listener(0.125, 0);
  EXPECT_NE(rla.loss(at(1), listener, kRtt, kRtt, 10), Reaction::kSamePeriod);
  EXPECT_EQ(rla.loss(at(1.1), listener, kRtt, kRtt, 11), Reaction::kSamePeriod);
  // Losses in a period do not move its start.
  EXPECT_EQ(rla.loss(at(1.2), listener, kRtt, kRtt, 12), Reaction::kSamePeriod);
  EXPECT_NE(rla.loss(at(1.201), listener, kRtt, kRtt, 13), Reaction::kSamePeriod);
  EXPECT_EQ(rla.signals(), 2u);
  EXPECT_EQ(listener.signals, 2u);
}

TEST(RlaListening, TheOnlyTroubledReceiverCutsTheWindowAtEachSignal) {
  RandomListening rla(settings(), 1);
  Listener listener(0.125, 0);
  rla.set_cwnd(40);
  EXPECT_EQ(rla.loss(at(1), listener, kRtt, kRtt, 100), Reaction::kRandomizedCut);
  EXPECT_DOUBLE_EQ(rla.cwnd(), 20);
  EXPECT_DOUBLE_EQ(rla.ssthresh(), 20);
  EXPECT_EQ(rla.loss(at(2), listener, kRtt, kRtt, 200), Reaction::kForcedCut);  // awnd is still 1
  EXPECT_DOUBLE_EQ(rla.cwnd(), 10);
}

TEST(RlaListening, ARareLossIsNoReasonToCut) {
  RandomListening rla(settings({"rla.forced_cut=1e9"}), 1);
  Listener often(0.125, 0), rare(0.125, 0);
  double now = 0;
  for (std::uint64_t packets = 100; packets <= 2000; packets += 100) {
    rla.loss(at(now += 1), often, kRtt, kRtt, packets);
  }
  EXPECT_TRUE(often.troubled);
  EXPECT_DOUBLE_EQ(rla.min_congestion_interval(), 100);
  // 1/20 of the worst congestion probability: an interval of 20 x 100 is just not troubled.
  EXPECT_EQ(rla.loss(at(now), rare, kRtt, kRtt, 2000), Reaction::kRare);
  EXPECT_FALSE(rare.troubled);
  Listener less_rare(0.125, 1);
  EXPECT_NE(rla.loss(at(now), less_rare, kRtt, kRtt, 2000), Reaction::kRare);
  EXPECT_EQ(rla.num_trouble_rcvr(), 2u);
  // Silence makes a receiver untroubled, like the sample that it would be: (7 x 100 + 15300) / 8 is
  // 20 x 100.
  for (const std::uint64_t packets : {17299u, 17300u}) {
    rla.begin_recount();
    rla.recount_interval(often);
    rla.recount_interval(less_rare);
    rla.recount_troubled(often, packets);
    EXPECT_EQ(often.troubled, packets < 17300);
  }
}

TEST(RlaListening, OneOfNSignalsIsListenedTo) {
  constexpr int kReceivers = 27;
  RandomListening rla(settings({"rla.forced_cut=1e9"}), 5);
  std::vector<Listener> listeners(kReceivers, Listener(0.125, 0));
  double now = 0;
  for (std::uint64_t round = 1; round <= 4000; ++round) {
    now += 1;
    for (Listener& listener : listeners) rla.loss(at(now), listener, kRtt, kRtt, round * 50);
    rla.set_cwnd(100);
  }
  EXPECT_EQ(rla.num_trouble_rcvr(), 27u);
  // Binomial: 4000 expected, standard deviation 62 (seed 5).
  EXPECT_NEAR(static_cast<double>(rla.randomized_cuts()), 4000, 4 * 62 + 27);
  EXPECT_EQ(rla.forced_cuts(), 0u);
}

TEST(RlaListening, ACutIsForcedWhenTheLastIsTooLongAgo) {
  // Two receivers, so that draws are needed. awnd stays 1: 2 x 1 x 100 ms.
  RandomListening rla(settings(), 1);
  Listener a(0.125, 0);
  rla.loss(at(1), a, kRtt, kRtt, 10);
  EXPECT_EQ(rla.randomized_cuts(), 1u);
  EXPECT_EQ(rla.loss(at(1.25), a, kRtt, kRtt, 20), Reaction::kForcedCut);
  EXPECT_EQ(rla.forced_cuts(), 1u);
}

TEST(RlaListening, ACutIsForcedAfterRoundTripsOfTheWindowNotOfANearReceiver) {
  RandomListening rla(settings({"rla.rtt_exponent=8"}), 1);
  Listener near(0.125, 0), far(0.125, 0);
  rla.loss(at(1), far, kRtt, kRtt, 10);
  ASSERT_EQ(rla.randomized_cuts(), 1u);
  // 2 awnd round trips are 200 ms with the window's RTT, but 20 ms with the near receiver's.
  EXPECT_EQ(rla.loss(at(1.15), near, kRtt * 0.1, kRtt, 20), Reaction::kIgnored);
  EXPECT_EQ(rla.loss(at(1.25), near, kRtt * 0.1, kRtt, 30), Reaction::kForcedCut);
}

TEST(RlaListening, TheGeneralisedVersionHearsNearReceiversLess) {
  RandomListening rla(settings({"rla.rtt_exponent=2", "rla.forced_cut=1e9"}), 3);
  Listener near(0.125, 0), far(0.125, 0);
  double now = 0;
  std::array<int, 2> cuts{};
  for (std::uint64_t round = 1; round <= 10000; ++round) {
    now += 1;
    const auto cut = [&](Listener& listener, Duration srtt) {
      return rla.loss(at(now), listener, srtt, kRtt, round * 50) == Reaction::kRandomizedCut;
    };
    cuts[0] += cut(near, kRtt * 0.5);
    cuts[1] += cut(far, kRtt);
  }
  // f(x) = x^2 (RLA 5.3): 1/8 and 1/2; standard deviations 33 and 50 (seed 3).
  EXPECT_NEAR(cuts[0], 1250, 4 * 33);
  EXPECT_NEAR(cuts[1], 5000, 4 * 50);
}

TEST(RlaListening, GrowsAsTcpDoes) {
  RandomListening rla(settings(), 1);
  for (int i = 0; i < 9; ++i) rla.acked_by_all();
  EXPECT_DOUBLE_EQ(rla.cwnd(), 10);
  rla.timeout(at(1));
  EXPECT_DOUBLE_EQ(rla.cwnd(), 1);
  EXPECT_DOUBLE_EQ(rla.ssthresh(), 5);
  for (int i = 0; i < 4; ++i) rla.acked_by_all();
  EXPECT_DOUBLE_EQ(rla.cwnd(), 5);
  rla.acked_by_all();
  EXPECT_DOUBLE_EQ(rla.cwnd(), 5.2);
  for (int i = 0; i < 10'000'000 && rla.cwnd() < 1024; ++i) rla.acked_by_all();
  EXPECT_DOUBLE_EQ(rla.cwnd(), 1024);  // rla.max_window
}

// RLA 4.2 (PROTOCOLS 5.6): two independent receivers, whose packets are congestion signals with
// probabilities p1 and p2. The window has no drift where W^2 = 4 (1 - (p1 + p2)/2 + p1 p2/4) / (p1
// + p2 - p1 p2/4).
constexpr Duration kShort = Duration::milliseconds(100);  // two of them pass between packets
double drift(double window, double p1, double p2, std::uint64_t seed) {
  RandomListening rla(settings({"rla.forced_cut=1e9", "rla.eta=1e6"}), seed);  // n = 2 all the time
  Listener one(0.125, 0), two(0.125, 0);
  rla.timeout(at(0));                                // leaves slow start
  const auto recount = [&](std::uint64_t packets) {  // as the sender does once per RTT
    rla.begin_recount();
    for (const Listener* l : {&one, &two}) rla.recount_interval(*l);
    for (Listener* l : {&one, &two}) rla.recount_troubled(*l, packets);
  };
  for (int i = 0; i < 100; ++i) {  // makes both troubled before anything is counted
    rla.loss(at(i), one, kShort, kShort, static_cast<std::uint64_t>(i) * 100);
    rla.loss(at(i), two, kShort, kShort, static_cast<std::uint64_t>(i) * 100);
  }
  recount(10'000);
  Rng rng(seed + 1);
  constexpr int kPackets = 4'000'000;
  double sum = 0;
  std::uint64_t sent = 10'000;
  double now = 1000;
  for (int i = 0; i < kPackets; ++i) {
    rla.set_cwnd(window);
    ++sent;
    now += 1;
    const std::uint64_t before = rla.randomized_cuts();
    if (i % 100 == 0) recount(sent);
    if (rng.uniform() < p1) rla.loss(at(now), one, kShort, kShort, sent);
    if (rng.uniform() < p2) rla.loss(at(now), two, kShort, kShort, sent);
    if (rla.randomized_cuts() == before) rla.acked_by_all();
    sum += rla.cwnd() - window;
  }
  return sum / kPackets;
}

TEST(RlaListening, TwoReceiversMeetTheWindowOfThePaper) {
  struct Case {
    double p1, p2, window;
  };
  for (const Case& c :
       {Case{0.01, 0.01, 14.080}, Case{0.02, 0.01, 11.470}, Case{0.04, 0.004, 9.434}}) {
    SCOPED_TRACE(c.window);
    const double formula =
        std::sqrt(4 * (1 - (c.p1 + c.p2) / 2 + c.p1 * c.p2 / 4) / (c.p1 + c.p2 - c.p1 * c.p2 / 4));
    EXPECT_NEAR(formula, c.window, 1e-3);
    // Near W the drift is -(2/W^2)(w - W). The standard error of the mean of 4e6 packets is W/2
    // sqrt(p) / 2000, below 4e-4 W. So a bias of 2 % of W would show, and 6 % on either side must
    // give the right sign.
    const double slope = 2 / (c.window * c.window);
    EXPECT_NEAR(drift(c.window, c.p1, c.p2, 11), 0, 0.03 * c.window * slope);
    EXPECT_GT(drift(0.94 * c.window, c.p1, c.p2, 12), 0);
    EXPECT_LT(drift(1.06 * c.window, c.p1, c.p2, 13), 0);
  }
}

TEST(RlaScoreboard, CountsWhatASimpleModelCounts) {
  constexpr std::uint32_t kWindow = 64, kMembers = 70;
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Scoreboard board(kWindow, kMembers);
    const std::uint32_t first = 0xffffffe0;  // numbers wrap
    board.restart(first);
    std::vector<bool> active(kMembers, false);
    std::vector<std::set<std::uint32_t>> have(kMembers), lost(kMembers);  // numbers from `first`
    std::uint32_t members = 0;
    const auto offset = [&](std::uint32_t seq) { return seq - first; };
    for (int step = 0; step < 20'000; ++step) {
      const auto slot = static_cast<std::uint32_t>(rng.below(kMembers));
      const double what = rng.uniform();
      const auto on_new = [&](std::uint32_t seq) {
        EXPECT_TRUE(have[slot].insert(offset(seq)).second);
        lost[slot].erase(offset(seq));
      };
      if (what < 0.2 && board.under_way() < kWindow) {
        const std::uint32_t pushed = board.push(Time::zero());
        EXPECT_EQ(pushed + 1, board.next());
      } else if (what < 0.3 && !active[slot] && members < 5) {
        board.join(slot, board.base());
        active[slot] = true;
        ++members;
        for (std::uint32_t i = 0; i < offset(board.base()); ++i) have[slot].insert(i);
      } else if (what < 0.31 && active[slot]) {
        board.leave(slot);
        active[slot] = false;
        --members;
        have[slot].clear();
        lost[slot].clear();
      } else if (active[slot] && board.under_way() > 0) {
        const std::uint32_t from =
            board.base() + static_cast<std::uint32_t>(rng.below(board.under_way()));
        const std::uint32_t to =
            from + 1 + static_cast<std::uint32_t>(rng.below(board.next() - from));
        if (what < 0.6) {
          board.acknowledge(slot, from, to, on_new);
          for (std::uint32_t s = from; s != to; ++s) EXPECT_EQ(have[slot].count(offset(s)), 1u);
        } else if (what < 0.75) {
          board.acknowledge_before(slot, to, on_new);
        } else if (what < 0.95 && have[slot].count(offset(from)) == 0) {
          EXPECT_EQ(board.lose(slot, from), lost[slot].insert(offset(from)).second);
        } else if (what >= 0.98) {
          std::set<std::uint32_t> losers;
          board.repeat(Time::zero(), from, [&](std::uint32_t l) { losers.insert(l); });
          for (std::uint32_t m = 0; m < kMembers; ++m) {
            EXPECT_EQ(losers.count(m), lost[m].erase(offset(from)));
          }
        }
      }
      board.slide();
      ASSERT_EQ(board.members(), members);
      for (std::uint32_t s = board.base(); s != board.next(); ++s) {
        std::uint32_t acked = 0, missed = 0;
        for (std::uint32_t m = 0; m < kMembers; ++m) {
          if (!active[m]) continue;
          ASSERT_EQ(board.has(m, s), have[m].count(offset(s)) == 1);
          acked += static_cast<std::uint32_t>(have[m].count(offset(s)));
          missed += static_cast<std::uint32_t>(lost[m].count(offset(s)));
        }
        ASSERT_EQ(board.packet(s).acked, acked);
        ASSERT_EQ(board.packet(s).lost, missed);
        if (s == board.base() && members > 0) {
          ASSERT_LT(acked, members);
        }
      }
    }
    EXPECT_GT(offset(board.next()), 100u);
  }
}

TEST(IdTable, KnowsWhatASetKnows) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    IdTable table(13);
    std::vector<std::uint32_t> slot_of(40, IdTable::kNone);
    std::uint32_t known = 0;
    for (int step = 0; step < 100'000; ++step) {
      const auto i = static_cast<std::uint32_t>(rng.below(slot_of.size()));
      const std::uint32_t id = i * 0x10000000u + i;  // some fall into one bucket
      ASSERT_EQ(table.find(id), slot_of[i]);
      if (slot_of[i] == IdTable::kNone) {
        slot_of[i] = table.insert(id);
        ASSERT_EQ(slot_of[i] == IdTable::kNone, known == 13);
        known += slot_of[i] == IdTable::kNone ? 0 : 1;
      } else if (rng.uniform() < 0.6) {
        table.erase(id);
        slot_of[i] = IdTable::kNone;
        --known;
      }
      ASSERT_EQ(table.size(), known);
    }
  }
}

TEST(RlaWire, MessagesComeBackAsTheyWere) {
  wire::RlaData data;
  data.session = 77;
  data.flags = wire::RlaData::kRetransmission | wire::RlaData::kLast;
  data.payload_length = 5;
  data.seq = 3;
  data.tx_time_us = 0x01020304;
  data.base = 0xfffffff0;
  data.offset = 0x123456789abcull;
  std::array<std::byte, 40> message{};
  ASSERT_EQ(wire::write(data, message), wire::RlaData::kBytes);
  wire::RlaData again;
  ASSERT_EQ(wire::parse(message, again), wire::Error::kOk);
  EXPECT_EQ(again.flags, data.flags);
  EXPECT_EQ(again.payload_length, 5);
  EXPECT_EQ(again.seq, 3u);
  EXPECT_EQ(again.base, 0xfffffff0u);
  EXPECT_EQ(again.offset, 0x123456789abcull);

  wire::RlaAck ack;
  ack.session = 77;
  ack.flags = wire::RlaAck::kRexmitNow;
  ack.source = 9;
  ack.cum_ack = 0xfffffffe;
  ack.echo_time_us = 5;
  ack.rwnd = 1000;
  ack.record_count = 2;
  ack.sacks[0] = {4, 6};
  ack.sacks[1] = {0xffffffff, 1};
  std::array<std::byte, wire::RlaAck::kMaxBytes> bytes{};
  ASSERT_EQ(wire::write(ack, bytes), 24u + 16u);
  wire::RlaAck back;
  ASSERT_EQ(wire::parse(std::span(bytes).first(40), back), wire::Error::kOk);
  EXPECT_EQ(back.source, 9u);
  EXPECT_EQ(back.cum_ack, 0xfffffffeu);
  EXPECT_EQ(back.rwnd, 1000);
  EXPECT_EQ(back.record_count, 2);
  EXPECT_EQ(back.sacks[1].start, 0xffffffffu);
  EXPECT_EQ(back.sacks[1].end, 1u);
}

TEST(RlaWire, WhatIsWrongIsNamed) {
  std::vector<std::byte> data(40), ack(40);
  wire::RlaData d;
  d.payload_length = 8;
  d.seq = 5;
  d.base = 5;
  ASSERT_EQ(wire::write(d, data), 32u);
  wire::RlaAck a;
  a.record_count = 2;
  a.cum_ack = 10;
  a.sacks[0] = {12, 13};
  a.sacks[1] = {15, 17};
  ASSERT_EQ(wire::write(a, ack), 40u);
  const auto data_error = [&](std::size_t at, int value) {
    std::vector<std::byte> m = data;
    m[at] = static_cast<std::byte>(value);
    return wire::name(wire::parse(m, d));
  };
  const auto ack_error = [&](std::size_t at, int value) {
    std::vector<std::byte> m = ack;
    m[at] = static_cast<std::byte>(value);
    return wire::name(wire::parse(m, a));
  };
  EXPECT_EQ(data_error(0, 1), "ok");
  EXPECT_EQ(data_error(0, 2), "version");
  EXPECT_EQ(data_error(1, 2), "type");
  EXPECT_EQ(data_error(2, 1), "scheme");
  EXPECT_EQ(data_error(3, 1), "flags");
  EXPECT_EQ(data_error(5, 31), "length");
  EXPECT_EQ(data_error(6, 0x80), "session");
  EXPECT_EQ(data_error(8, 8), "reserved");
  EXPECT_EQ(data_error(9, 1), "reserved");
  EXPECT_EQ(data_error(11, 9), "short");   // payload longer than the message
  EXPECT_EQ(data_error(23, 6), "record");  // base after seq
  EXPECT_EQ(data_error(11, 0), "ok");      // of a stream
  data[31] = std::byte{1};
  EXPECT_EQ(data_error(11, 0), "record");  // a stream has no offset
  EXPECT_EQ(wire::parse(std::span(data).first(31), d), wire::Error::kShort);
  EXPECT_EQ(ack_error(0, 1), "ok");
  EXPECT_EQ(ack_error(1, 1), "type");
  EXPECT_EQ(ack_error(8, 16), "reserved");
  EXPECT_EQ(ack_error(9, 4), "record_count");
  EXPECT_EQ(ack_error(9, 3), "length");
  EXPECT_EQ(ack_error(27, 10), "record");  // a run that starts at cum_ack
  EXPECT_EQ(ack_error(31, 12), "record");  // an empty run
  a.record_count = 1;
  a.sacks[0] = {10u + 0x7fffffffu, 8};  // a run that ends before cum_ack, half the numbers on
  std::vector<std::byte> around(wire::RlaAck::kMaxBytes);
  around.resize(wire::write(a, around));
  EXPECT_EQ(wire::parse(around, a), wire::Error::kRecord);
  EXPECT_EQ(wire::parse(std::span(ack).first(39), a), wire::Error::kShort);
  ack.push_back({});
  EXPECT_EQ(wire::parse(ack, a), wire::Error::kLength);
}

}  // namespace
}  // namespace tiercast::rla
