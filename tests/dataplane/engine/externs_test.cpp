// State that the control plane and packets share (meters, digests, value sets, action selectors,
// idle time-outs, custom CRCs), and what a program reports through Output.
#include <gmock/gmock.h>

#include <map>

#include "dataplane/engine/run/digest_list.h"
#include "dataplane/engine/tables/meter.h"
#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kPaths = "MyIngress.paths";
constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

// Records everything that a switch reports, for both forms of a program.
class Externs : public ::testing::TestWithParam<bool> {
 protected:
  struct Listener : Recorder {
    struct Digests {
      std::string name;
      std::uint64_t list_id;
      std::int64_t time_ns;
      std::vector<DigestData> digests;
    };
    bool digest(const DigestList& list) override {
      Digests& copy =
          digests.emplace_back(Digests{std::string(list.name), list.list_id, list.time_ns, {}});
      for (std::size_t i = 0; i < list.size; ++i) copy.digests.push_back(list.at(i));
      return take_digests;
    }
    void entries_expired(std::string_view table, std::span<const TableEntry> entries) override {
      for (const TableEntry& entry : entries) expired.emplace_back(table, entry);
    }
    void log_message(std::string_view text) override { log.emplace_back(text); }
    void assertion_failed(std::string_view what) override { failed.emplace_back(what); }
    std::vector<Digests> digests;
    bool take_digests = true;
    std::vector<std::pair<std::string, TableEntry>> expired;
    std::vector<std::string> log, failed;
  };

  void start(const std::string& program) {
    Switch::Options options;
    options.flat_code = GetParam();
    sw = std::make_unique<Switch>(load_program(program), options, out);
    for (std::uint32_t port = 1; port <= 8; ++port) EXPECT_OK(sw->set_port(port, {}));
  }
  void receive(std::initializer_list<unsigned> bytes, std::int64_t at_ns = 0) {
    FrameBuilder frame;
    for (unsigned b : bytes) frame.put(b, 8);
    sw->receive(1, frame.take(), at_ns);
  }
  static TableEntry exact(unsigned key, const std::string& action, std::vector<Bytes> arguments) {
    return {{FieldMatch::exact(big_endian(key, 1))}, 0, {action, std::move(arguments)}, {}};
  }

  Listener out;
  std::unique_ptr<Switch> sw;
};
INSTANTIATE_TEST_SUITE_P(Forms, Externs, ::testing::Values(true, false),
                         [](const auto& form) { return form.param ? "Flat" : "Image"; });

// RFC 2698: a bucket holds burst + rate * time. Over any time t, at most that much passes, and all
// of it if enough is offered.
TEST(Meter, LetsThroughItsRatesAndBursts) {
  Meter meter;
  meter.configure(MeterConfig{1000, 50, 3000, 200, false}, 5);
  std::map<Meter::Colour, int> seen;
  constexpr int kPackets = 100'000;  // of 1 unit, 10 a ms: 10 s
  for (int n = 0; n < kPackets; ++n) ++seen[meter.mark(1, 5 + n * kMs / 10)];
  EXPECT_NEAR(seen[Meter::kGreen], 50 + 1000 * 10, 1);
  EXPECT_NEAR(seen[Meter::kGreen] + seen[Meter::kYellow], 200 + 3000 * 10, 1);
  EXPECT_EQ(seen[Meter::kGreen] + seen[Meter::kYellow] + seen[Meter::kRed], kPackets);
}

// RFC 2697: what overflows the full committed bucket fills the excess bucket.
TEST(Meter, SingleRateSavesAnExcessBurst) {
  Meter meter;
  meter.configure(MeterConfig{100, 2, 0, 3, true}, 0);
  const auto burst = [&](std::int64_t now_ns) {
    std::vector<int> colours;
    for (int n = 0; n < 6; ++n) colours.push_back(meter.mark(1, now_ns));
    return colours;
  };
  EXPECT_THAT(burst(0), ElementsAre(0, 0, 1, 1, 1, 2));
  EXPECT_THAT(burst(kSecond / 100), ElementsAre(0, 2, 2, 2, 2, 2));
  EXPECT_THAT(burst(kSecond), ElementsAre(0, 0, 1, 1, 1, 2));
}

TEST(Meter, NoConfigurationIsGreen) {
  Meter meter;
  EXPECT_EQ(meter.mark(UINT64_MAX, 0), Meter::kGreen);
}

TEST_P(Externs, IndirectMeterKeepsTimeAndConfiguration) {
  start("meter");
  const MeterConfig config{4, 4, 8, 8, false};
  EXPECT_OK(sw->write_meter("MyIngress.policer", 1, config));
  EXPECT_EQ(*sw->read_meter("MyIngress.policer", 1), config);
  EXPECT_EQ(*sw->read_meter("MyIngress.policer", 0), std::nullopt);
  for (int n = 0; n < 3; ++n) receive({1, 0, 0, 0});
  EXPECT_THAT(out.ports(), ElementsAre(2, 2));  // green, yellow, then red
  EXPECT_EQ(out.sent[1].frame[0], std::byte{1});
  receive({1, 0, 0, 0}, kSecond);
  EXPECT_EQ(out.sent.at(2).frame[0], std::byte{0});

  const Status outside = sw->write_meter("MyIngress.policer", 4, config);
  EXPECT_EQ(outside.code(), ErrorCode::kInvalidArgument);
  const Status slow = sw->write_meter("MyIngress.policer", 0, MeterConfig{9, 1, 8, 1, false});
  EXPECT_THAT(slow.message(), HasSubstr("below the committed rate"));
  EXPECT_EQ(sw->write_meter("x", 0, config).code(), ErrorCode::kNotFound);
}

TEST_P(Externs, DirectMeterMarksWhatHitsItsEntry) {
  start("direct_meter");
  TableEntry entry = exact(1, "MyIngress.mark", {});
  entry.meter = MeterConfig{0, 1, 0, 2, false};
  EXPECT_OK(sw->insert_entry("MyIngress.policed", entry));
  for (int n = 0; n < 3; ++n) receive({1, 9});
  receive({2, 9});  // a miss has no colour
  ASSERT_EQ(out.sent.size(), 4u);
  for (unsigned n = 0; n < 3; ++n) EXPECT_EQ(out.sent[n].frame[1], std::byte(n));
  EXPECT_EQ(out.sent[3].frame[1], std::byte{0});
  EXPECT_EQ(sw->read_entry("MyIngress.policed", entry)->meter, entry.meter);
  EXPECT_OK(sw->write_entry_meter("MyIngress.policed", entry, std::nullopt));
  receive({1, 9});
  EXPECT_EQ(out.sent[4].frame[1], std::byte{0});
}

TEST_P(Externs, DigestsAreGatheredAndNotRepeated) {
  start("digest");
  const std::string name = sw->program().digests().at(0).name;
  EXPECT_THAT(sw->program().digests()[0].widths, ElementsAre(8, 9));
  receive({5});
  EXPECT_TRUE(out.digests.empty());  // no config, so no digests
  EXPECT_OK(sw->configure_digest(name, DigestConfig{2, 10 * kMs, 100 * kMs}));

  receive({5}, kMs);
  receive({5}, 2 * kMs);  // known
  EXPECT_EQ(sw->next_event(), 11 * kMs);
  receive({6}, 3 * kMs);  // full
  ASSERT_EQ(out.digests.size(), 1u);
  EXPECT_EQ(out.digests[0].name, name);
  EXPECT_EQ(out.digests[0].list_id, 1u);
  EXPECT_EQ(out.digests[0].time_ns, 3 * kMs);
  EXPECT_THAT(out.digests[0].digests, ElementsAre(ElementsAre(big_endian(5, 1), big_endian(1, 1)),
                                                  ElementsAre(big_endian(6, 1), big_endian(1, 1))));
  receive({7}, 4 * kMs);
  sw->advance(14 * kMs);  // old enough
  ASSERT_EQ(out.digests.size(), 2u);
  EXPECT_EQ(out.digests[1].time_ns, 14 * kMs);

  receive({5}, 15 * kMs);  // not yet acknowledged
  EXPECT_EQ(sw->next_event(), Switch::kNever);
  EXPECT_OK(sw->acknowledge_digest(name, 1));
  receive({5}, 16 * kMs);
  EXPECT_EQ(sw->next_event(), 26 * kMs);
  sw->advance(26 * kMs);
  receive({7}, 114 * kMs);  // the acknowledgement of list 2 is overdue
  EXPECT_EQ(sw->next_event(), 124 * kMs);
  EXPECT_EQ(sw->acknowledge_digest("x", 1).code(), ErrorCode::kNotFound);
}

TEST_P(Externs, ADigestStandsOnceInAList) {
  start("digest");
  const std::string name = sw->program().digests().at(0).name;
  EXPECT_OK(sw->configure_digest(name, DigestConfig{3, kSecond, 0}));
  for (unsigned value : {1u, 1u, 2u, 1u, 2u, 3u, 1u}) receive({value}, kMs);
  ASSERT_EQ(out.digests.size(), 1u);
  EXPECT_EQ(out.digests[0].digests.size(), 3u);
  EXPECT_OK(sw->configure_digest(name, DigestConfig{0, 5 * kMs, 0}));  // keeps what is gathered
  EXPECT_EQ(sw->next_event(), 6 * kMs);
  sw->advance(6 * kMs);
  ASSERT_EQ(out.digests.size(), 2u);
  EXPECT_EQ(out.digests[1].digests.size(), 1u);
  EXPECT_OK(sw->configure_digest(name, std::nullopt));
  receive({9}, 7 * kMs);
  EXPECT_EQ(sw->next_event(), Switch::kNever);
}

TEST_P(Externs, DigestsThatNobodyTookMayComeAgain) {
  start("digest");
  const std::string name = sw->program().digests().at(0).name;
  EXPECT_OK(sw->configure_digest(name, DigestConfig{1, 0, kSecond}));
  out.take_digests = false;
  for (int n = 0; n < 3; ++n) receive({5}, kMs);
  EXPECT_EQ(out.digests.size(), 3u);
  EXPECT_EQ(sw->switch_stats().dropped_digests, 3u);
  out.take_digests = true;
  for (int n = 0; n < 3; ++n) receive({5}, kMs);
  EXPECT_EQ(out.digests.size(), 4u);
  EXPECT_EQ(sw->switch_stats().dropped_digests, 3u);
}

// What is kept is bounded. Compared with a set that remembers everything.
TEST(DigestGatherer, IsBoundedAndForgetsWhatIsAcknowledged) {
  DigestGatherer gatherer({32});
  gatherer.configure(DigestConfig{0, kSecond, kSecond});
  std::uint64_t next_list = 0, taken = 0;
  const auto offer = [&](std::uint32_t value, std::int64_t now_ns) {
    for (std::size_t i = 0; i < 4; ++i) {
      gatherer.draft()[i] = static_cast<std::byte>(value >> (24 - 8 * i));
    }
    gatherer.add(now_ns);
    while (gatherer.due_ns() <= now_ns) {
      gatherer.send(now_ns, [&](const DigestList& list) {
        EXPECT_EQ(list.list_id, ++next_list);
        EXPECT_LE(list.size, DigestGatherer::kMaxList);
        taken += list.size;
        return true;
      });
    }
  };
  constexpr std::uint32_t kOffered = 20'000;
  for (std::uint32_t value = 0; value < kOffered; ++value) offer(value, 1);
  EXPECT_EQ(taken, DigestGatherer::kMaxKept);
  EXPECT_EQ(gatherer.dropped(), kOffered - DigestGatherer::kMaxKept);
  gatherer.acknowledge(2);  // values kMaxList to 2 kMaxList - 1
  taken = 0;
  for (std::uint32_t value = 0; value < 2 * DigestGatherer::kMaxList; ++value) offer(value, 2);
  EXPECT_EQ(taken, DigestGatherer::kMaxList);
  for (std::uint64_t list = 1; list <= next_list; ++list) gatherer.acknowledge(list);
  taken = 0;
  for (std::uint32_t value = 0; value < DigestGatherer::kMaxKept; ++value) offer(value, 3);
  EXPECT_EQ(taken, DigestGatherer::kMaxKept);
  offer(0, 3 + kSecond);  // all acknowledgements are overdue
  EXPECT_EQ(gatherer.due_ns(), 3 + 2 * kSecond);
}

// Behind a list whose acknowledgement never comes, others come and go without end.
TEST(DigestGatherer, AListThatIsNeverAcknowledgedHoldsUpNoOther) {
  DigestGatherer gatherer({32});
  gatherer.configure(DigestConfig{1, 0, kSecond});
  const auto is_sent = [&](std::uint32_t value, bool acknowledged) {
    for (std::size_t i = 0; i < 4; ++i) {
      gatherer.draft()[i] = static_cast<std::byte>(value >> (24 - 8 * i));
    }
    gatherer.add(0);
    if (gatherer.due_ns() > 0) return false;
    std::uint64_t id = 0;
    gatherer.send(0, [&](const DigestList& list) {
      id = list.list_id;
      return true;
    });
    if (acknowledged) gatherer.acknowledge(id);
    return true;
  };
  EXPECT_TRUE(is_sent(0, false));
  for (std::uint32_t value = 1; value < DigestGatherer::kMaxKept; ++value) {
    ASSERT_TRUE(is_sent(value, true)) << value;
  }
  EXPECT_FALSE(is_sent(0, true));  // still remembered
  for (std::uint32_t value = 1; value <= 2 * DigestGatherer::kMaxKept; ++value) {
    ASSERT_TRUE(is_sent(value, true)) << value;
  }
  EXPECT_TRUE(is_sent(0, true));
  EXPECT_EQ(gatherer.dropped(), 0u);
}

TEST_P(Externs, ValueSetsDecideInTheParser) {
  start("value_set");
  const std::string name = sw->program().value_sets().at(0).name;
  EXPECT_THAT(sw->program().value_sets()[0].widths, ElementsAre(4, 12));
  receive({0x12, 0x34});
  EXPECT_OK(sw->write_value_set(
      name, {{FieldMatch::exact(big_endian(1, 1)), FieldMatch::exact(big_endian(0x234, 2))},
             {FieldMatch::dont_care(), FieldMatch::ternary(big_endian(7, 1), big_endian(7, 1))}}));
  receive({0x12, 0x34});
  receive({0x22, 0x34});
  receive({0xff, 0x0f});
  EXPECT_THAT(out.ports(), ElementsAre(2, 3, 2, 3));
  EXPECT_EQ(sw->read_value_set(name)->size(), 2u);
  EXPECT_THAT(sw->write_value_set(name, {{FieldMatch::exact("\x1")}}).message(),
              HasSubstr("2 parts, found 1"));
  EXPECT_EQ(sw->write_value_set(name, std::vector<ValueSetMember>(5)).code(),
            ErrorCode::kResourceExhausted);
  EXPECT_OK(sw->write_value_set(name, {}));
  receive({0x12, 0x34});
  EXPECT_EQ(out.ports().back(), 2u);
}

TEST_P(Externs, SelectorsChooseAmongMembers) {
  start("selector");
  const auto forward = [](unsigned port) {
    return ActionCall{"MyIngress.forward", {big_endian(port, 1)}};
  };
  for (unsigned m = 1; m <= 3; ++m) EXPECT_OK(sw->insert_member(kPaths, m, forward(m + 1)));
  EXPECT_OK(sw->insert_group(kPaths, 7, {{{3}, {1, 2}}}));  // member 1 twice as often
  TableEntry to_group = exact(1, "", {}), to_member = exact(2, "", {});
  to_group.group = 7;
  to_member.member = 2;
  EXPECT_OK(sw->insert_entry("MyIngress.balance", to_group));
  EXPECT_OK(sw->insert_entry("MyIngress.balance", to_member));
  for (unsigned flow = 0; flow < 4; ++flow) receive({1, flow});
  receive({2, 0});
  EXPECT_THAT(out.ports(), ElementsAre(2, 2, 4, 2, 3));
  EXPECT_EQ(sw->read_entry("MyIngress.balance", to_group)->group, 7u);

  EXPECT_EQ(sw->delete_member(kPaths, 1).code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(sw->delete_group(kPaths, 7).code(), ErrorCode::kFailedPrecondition);
  EXPECT_OK(sw->modify_group(kPaths, 7, {{{2}}}));
  EXPECT_OK(sw->delete_member(kPaths, 1));
  EXPECT_OK(sw->modify_member(kPaths, 2, forward(8)));
  receive({1, 0});
  EXPECT_EQ(out.ports().back(), 8u);
  EXPECT_OK(sw->modify_group(kPaths, 7, {}));
  const std::size_t before = out.sent.size();
  receive({1, 0});  // an empty group does nothing: port 0 does not exist
  EXPECT_EQ(out.sent.size(), before);

  EXPECT_EQ(sw->insert_member(kPaths, 3, forward(1)).code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(sw->insert_member(kPaths, 9, {"x", {}}).message(), HasSubstr("no action `x`"));
  EXPECT_EQ(sw->insert_group(kPaths, 9, {{{55}}}).code(), ErrorCode::kNotFound);
  TableEntry neither = exact(3, "", {});
  EXPECT_EQ(sw->insert_entry("MyIngress.balance", neither).code(), ErrorCode::kInvalidArgument);
  EXPECT_OK(sw->delete_entry("MyIngress.balance", to_group));
  EXPECT_OK(sw->delete_group(kPaths, 7));
}

// The group that belongs to an entry, and weights far beyond what could be laid out.
TEST_P(Externs, ActionSetsAreGroupsOfOneEntry) {
  start("selector");
  const auto forward = [](unsigned port) {
    return ActionCall{"MyIngress.forward", {big_endian(port, 1)}};
  };
  TableEntry entry = exact(1, "", {});
  entry.action_set = {{forward(4)}, {forward(2), 2}};
  EXPECT_OK(sw->insert_entry("MyIngress.balance", entry));
  for (unsigned flow = 0; flow < 4; ++flow) receive({1, flow});
  EXPECT_THAT(out.ports(), ElementsAre(4, 2, 2, 4));
  EXPECT_EQ(sw->read_entry("MyIngress.balance", entry)->action_set, entry.action_set);
  EXPECT_THAT(sw->members(kPaths).value(), ElementsAre());
  EXPECT_EQ(sw->profile_usage(kPaths)->action_sets, 1u);
  EXPECT_EQ(sw->profile_usage(kPaths)->group_members, 2u);
  EXPECT_EQ(sw->profile_usage(kPaths)->group_weight, 3u);

  entry.action_set = {{forward(3), UINT32_MAX}, {forward(5), UINT32_MAX}};
  EXPECT_OK(sw->modify_entry("MyIngress.balance", entry));
  receive({1, 0});
  EXPECT_EQ(out.ports().back(), 3u);
  EXPECT_EQ(sw->profile_usage(kPaths)->group_weight, 2ull * UINT32_MAX);
  TableEntry wrong = entry;
  wrong.action_set = {{forward(3), 0}};
  EXPECT_THAT(sw->modify_entry("MyIngress.balance", wrong).message(), HasSubstr("weight 0"));
  wrong.action_set = {{{"x", {}}}};
  EXPECT_EQ(sw->modify_entry("MyIngress.balance", wrong).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(sw->read_entry("MyIngress.balance", entry)->action_set, entry.action_set);
  EXPECT_OK(sw->delete_entry("MyIngress.balance", entry));
  EXPECT_EQ(sw->profile_usage(kPaths)->action_sets, 0u);
  EXPECT_EQ(sw->profile_usage(kPaths)->group_weight, 0u);
}

TEST_P(Externs, MembersThatWatchAPortThatIsDownAreNotChosen) {
  start("selector");
  const auto forward = [](unsigned port) {
    return ActionCall{"MyIngress.forward", {big_endian(port, 1)}};
  };
  for (unsigned m = 1; m <= 3; ++m) EXPECT_OK(sw->insert_member(kPaths, m, forward(m + 1)));
  EXPECT_OK(sw->insert_group(kPaths, 7, {{{1, 1, 2}, {2, 1, 3}, {3, 1}}}));
  TableEntry to_group = exact(1, "", {}), own = exact(2, "", {});
  to_group.group = 7;
  own.action_set = {{forward(5), 1, 2}, {forward(6), 1, 3}};
  EXPECT_OK(sw->insert_entry("MyIngress.balance", to_group));
  EXPECT_OK(sw->insert_entry("MyIngress.balance", own));
  const auto chosen = [&] {
    const std::size_t before = out.sent.size();
    for (unsigned key : {1u, 2u}) {
      for (unsigned flow = 0; flow < 3; ++flow) receive({key, flow});
    }
    const auto ports = out.ports();
    return std::vector<std::uint32_t>(ports.begin() + static_cast<std::ptrdiff_t>(before),
                                      ports.end());
  };
  EXPECT_THAT(chosen(), ElementsAre(2, 3, 4, 5, 6, 5));
  EXPECT_OK(sw->set_port_up(2, false));
  EXPECT_THAT(chosen(), ElementsAre(3, 4, 3, 6, 6, 6));
  EXPECT_OK(sw->set_port_up(3, false));
  EXPECT_THAT(chosen(), ElementsAre(4, 4, 4));  // the entry's own group is empty
  EXPECT_OK(sw->set_port_up(2, true));
  EXPECT_OK(sw->set_port_up(3, true));
  EXPECT_THAT(chosen(), ElementsAre(2, 3, 4, 5, 6, 5));
  EXPECT_EQ(sw->set_port_up(99, false).code(), ErrorCode::kNotFound);
}

// P4Runtime 1.4, "Table Idle Timeout Notification": reported again after each further time-out.
TEST_P(Externs, IdleEntriesAreReportedWheneverTheyWereIdleForTheirTimeOut) {
  start("idle");
  TableEntry entry = exact(1, "MyIngress.forward", {big_endian(2, 1)});
  entry.idle_timeout_ns = 30 * kMs;
  EXPECT_OK(sw->insert_entry("MyIngress.seen", entry));
  receive({1}, 5 * kMs);
  sw->advance(34 * kMs);
  EXPECT_TRUE(out.expired.empty());
  EXPECT_EQ(sw->read_entry("MyIngress.seen", entry)->idle_ns, 29 * kMs);
  sw->advance(36 * kMs);
  ASSERT_EQ(out.expired.size(), 1u);
  EXPECT_EQ(out.expired[0].first, "MyIngress.seen");
  EXPECT_EQ(out.expired[0].second.match, entry.match);
  EXPECT_EQ(out.expired[0].second.idle_ns, 30 * kMs);
  sw->advance(100 * kMs);
  ASSERT_EQ(out.expired.size(), 3u);
  EXPECT_EQ(out.expired[2].second.idle_ns, 90 * kMs);
  receive({1}, 110 * kMs);
  sw->advance(139 * kMs);
  EXPECT_EQ(out.expired.size(), 3u);
  sw->advance(140 * kMs);
  EXPECT_EQ(out.expired.size(), 4u);
  entry.idle_timeout_ns = 0;
  EXPECT_OK(sw->modify_entry("MyIngress.seen", entry));
  sw->advance(1000 * kMs);
  EXPECT_EQ(out.expired.size(), 4u);
  EXPECT_EQ(sw->next_event(), Switch::kNever);
}

TEST_P(Externs, IdleTimeOutsHaveALeastValue) {
  start("idle");
  for (unsigned key = 1; key <= 3; ++key) {
    TableEntry entry = exact(key, "MyIngress.forward", {big_endian(2, 1)});
    entry.idle_timeout_ns = key;
    EXPECT_OK(sw->insert_entry("MyIngress.seen", entry));
  }
  sw->advance(95 * kMs);
  EXPECT_EQ(out.expired.size(), 9 * 3u);
}

// A scan covers all entries, so time-outs that end close together are reported together.
TEST_P(Externs, IdleEntriesAreLookedForAtMostOnceAMicrosecondForEach) {
  start("idle");
  for (unsigned key = 0; key < 200; ++key) {
    sw->advance(key);
    TableEntry entry = exact(key, "MyIngress.forward", {big_endian(2, 1)});
    entry.idle_timeout_ns = kSecond;
    EXPECT_OK(sw->insert_entry("MyIngress.seen", entry));
  }
  sw->advance(kSecond);
  EXPECT_EQ(out.expired.size(), 1u);
  EXPECT_EQ(sw->next_event(), kSecond + 200'000);
  sw->advance(kSecond + 200'000);
  EXPECT_EQ(out.expired.size(), 200u);
}

TEST_P(Externs, CustomCrcs) {
  start("hash");
  // CRC-16/XMODEM and CRC-32/BZIP2 of "123456789".
  std::string crc16, crc32;
  for (const auto& name : sw->calculations()) {
    const bool is16 = sw->write_crc(name, {0x1021, 0, 0, false, false}).ok();
    if (!is16) continue;
    (crc16.empty() ? crc16 : crc32) = name;
  }
  EXPECT_OK(sw->write_crc(crc32, {0x04c11db7, 0xffffffff, 0xffffffff, false, false}));
  FrameBuilder text;
  for (char c : std::string("123456789")) text.put(static_cast<unsigned char>(c), 8);
  sw->receive(1, text.take(), 0);
  ASSERT_EQ(out.sent.size(), 1u);
  EXPECT_EQ(number_at(out.sent[0].frame, 15, 2), 0x31c3u);
  EXPECT_EQ(number_at(out.sent[0].frame, 17, 4), 0xfc891918u);
}

TEST_P(Externs, MessagesAndAssertions) {
  start("log");
  FrameBuilder frame;
  frame.put(7, 8).put(0, 64).put(UINT64_MAX, 64);
  sw->receive(1, frame.take(), 0);
  EXPECT_THAT(out.log, ElementsAre("start", "a is 7, b is 18446744073709551615."));
  EXPECT_EQ(out.sent.size(), 1u);
  for (unsigned wrong : {9u, 8u}) {
    FrameBuilder bad;
    bad.put(wrong, 8).put(0, 64).put(0, 64);
    sw->receive(1, bad.take(), 0);
  }
  EXPECT_EQ(out.sent.size(), 1u);
  ASSERT_EQ(out.failed.size(), 2u);
  EXPECT_THAT(out.failed[0], HasSubstr("assert at log.p4:"));
  EXPECT_THAT(out.failed[1], HasSubstr("assume at log.p4:"));
  EXPECT_EQ(sw->switch_stats().assertion_failed_packets, 2u);
}

}  // namespace
}  // namespace tiercast::engine
