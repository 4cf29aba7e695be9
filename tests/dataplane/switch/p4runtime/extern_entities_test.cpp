// Writes and reads of the P4Runtime entities of externs (meters, action profiles, digests, value
// sets, idle timeouts), on the programs in tests/data/p4, with a P4Info for the parts that are
// used.
#include "dataplane/switch/p4runtime/entities/digests.h"
#include "tests/dataplane/switch/p4runtime/entity_fixture.h"

namespace tiercast::vswitch {
namespace {

std::string program(const std::string& name) {
  return std::string(TIERCAST_TEST_P4 "/") + name + ".json";
}

// --- Meters ---

class MeterTest : public EntityFixture {
 protected:
  MeterTest()
      : EntityFixture(program("meter"), R"(meters {
          preamble { id: 9 name: "MyIngress.policer" } spec { unit: PACKETS } size: 4 })") {}
};

TEST_F(MeterTest, CellsAreConfiguredReadAndReset) {
  const char* const cell = R"(meter_entry { meter_id: 9 index { index: 2 }
                                            config { cir: 4 cburst: 5 pir: 8 pburst: 9 } })";
  EXPECT_EQ(modify(cell), grpc::OK) << message_;
  expect_symmetric(cell);
  EXPECT_EQ(read("meter_entry { meter_id: 9 }").size(), 4u);
  EXPECT_EQ(read("meter_entry { }").size(), 4u);
  EXPECT_FALSE(read("meter_entry { meter_id: 9 index { } }").at(0).meter_entry().has_config());
  expect_snapshot_is_whole();
  expect_undone({update(Update::MODIFY, "meter_entry { meter_id: 9 config { } }"),
                 update(Update::MODIFY, "meter_entry { meter_id: 9 index { index: 2 } }")});
  EXPECT_FALSE(read(cell).at(0).meter_entry().has_config());
  EXPECT_EQ(modify("meter_entry { meter_id: 9 }"), grpc::OK);
  EXPECT_FALSE(read("meter_entry { meter_id: 9 index { } }").at(0).meter_entry().has_config());
}

TEST_F(MeterTest, CellsAreReadInTurns) {
  EXPECT_EQ(modify(R"(meter_entry { meter_id: 9 index { index: 2 }
                                    config { cir: 4 cburst: 5 pir: 8 pburst: 9 } })"),
            grpc::OK);
  for (const char* const wanted : {"meter_entry { }", "meter_entry { meter_id: 9 }",
                                   "meter_entry { meter_id: 9 index { index: 2 } }"}) {
    const auto all = read(wanted);
    for (std::uint64_t most = 1; most <= 5; ++most) {
      const auto parts = read_in_turns(wanted, most);
      ASSERT_EQ(parts.size(), all.size()) << wanted << most;
      for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_TRUE(MessageDifferencer::Equals(parts[i], all[i])) << wanted << most << ", " << i;
    }
  }
}

class DirectMeterTest : public EntityFixture {
 protected:
  explicit DirectMeterTest(const std::string& type = "TWO_RATE_THREE_COLOR")
      : EntityFixture(program("direct_meter"), R"(
          tables { preamble { id: 1 name: "MyIngress.policed" }
                   match_fields { id: 1 name: "hdr.pair.key" bitwidth: 8 match_type: EXACT }
                   action_refs { id: 2 } action_refs { id: 3 } direct_resource_ids: 4 size: 1024 }
          actions { preamble { id: 2 name: "MyIngress.mark" } }
          actions { preamble { id: 3 name: "NoAction" } }
          direct_meters { preamble { id: 4 name: "MyIngress.police" }
                          spec { unit: PACKETS type: )" +
                                                   type + R"( } direct_table_id: 1 })") {}
  static std::string entry(const std::string& more) {
    return R"(table_entry { table_id: 1 match { field_id: 1 exact { value: "\005" } } )" + more +
           " }";
  }
  static std::string mark(const std::string& more) {
    return entry("action { action { action_id: 2 } } " + more);
  }
  static std::string meter(const std::string& config) {
    return "direct_meter_entry { " + entry("") + config + " }";
  }
};

TEST_F(DirectMeterTest, StandsInTheEntryAndAsAnEntityOfItsOwn) {
  const std::string config = "meter_config { cir: 1 cburst: 2 pir: 3 pburst: 4 }";
  EXPECT_EQ(insert(mark(config)), grpc::OK) << message_;
  expect_symmetric(mark(config));
  expect_symmetric(meter("config { cir: 1 cburst: 2 pir: 3 pburst: 4 }"));
  EXPECT_FALSE(read(entry("")).at(0).table_entry().has_meter_config());
  expect_snapshot_is_whole();
  EXPECT_EQ(modify(meter("config { cir: 5 cburst: 6 pir: 7 pburst: 8 }")), grpc::OK) << message_;
  expect_symmetric(meter("config { cir: 5 cburst: 6 pir: 7 pburst: 8 }"));
  expect_undone({update(Update::MODIFY, meter("")), update(Update::MODIFY, mark(config)),
                 update(Update::DELETE, entry(""))});
  EXPECT_EQ(modify(meter("")), grpc::NOT_FOUND);
  // An entry that is modified without a config loses its config.
  EXPECT_EQ(insert(mark(config)), grpc::OK);
  EXPECT_EQ(modify(mark("")), grpc::OK);
  EXPECT_FALSE(read(meter("")).at(0).direct_meter_entry().has_config());
  EXPECT_EQ(read("direct_meter_entry { table_entry { } }").size(), 1u);
}

TEST_F(DirectMeterTest, WrongConfigsAreRefused) {
  for (const char* const wrong :
       {"cir: -1", "cburst: -1", "cir: 2 pir: 1", "pir: 9007199254740993", "eburst: 1"})
    EXPECT_EQ(insert(mark("meter_config { " + std::string(wrong) + " }")), grpc::INVALID_ARGUMENT)
        << wrong;
  EXPECT_EQ(insert(mark("meter_counter_data { }")), grpc::UNIMPLEMENTED);
  EXPECT_TRUE(read(entry("")).empty());
}

class SingleRateTest : public DirectMeterTest {
 protected:
  SingleRateTest() : DirectMeterTest("SINGLE_RATE_THREE_COLOR") {}
};
TEST_F(SingleRateTest, HasAnExcessBurst) {
  const std::string config = "meter_config { cir: 1 cburst: 2 pir: 1 pburst: 2 eburst: 7 }";
  EXPECT_EQ(insert(mark(config)), grpc::OK) << message_;
  expect_symmetric(mark(config));
  EXPECT_EQ(modify(mark("meter_config { cir: 1 cburst: 2 pir: 2 pburst: 2 }")),
            grpc::INVALID_ARGUMENT);
}

class TwoColoursTest : public DirectMeterTest {
 protected:
  TwoColoursTest() : DirectMeterTest("SINGLE_RATE_TWO_COLOR") {}
};
TEST_F(TwoColoursTest, AreGreenAndRed) {
  const std::string config = "meter_config { cir: 1 cburst: 2 pir: 1 pburst: 2 }";
  EXPECT_EQ(insert(mark(config)), grpc::OK) << message_;
  expect_symmetric(mark(config));
  EXPECT_EQ(modify(mark("meter_config { cir: 1 cburst: 2 pir: 1 pburst: 2 eburst: 1 }")),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(modify(mark("meter_config { cir: 1 cburst: 2 pir: 1 pburst: 3 }")),
            grpc::INVALID_ARGUMENT);
}

// --- Action selectors ---

class SelectorTest : public EntityFixture {
 protected:
  explicit SelectorTest(const std::string& limits = "size: 8")
      : EntityFixture(program("selector"), R"(
          tables { preamble { id: 1 name: "MyIngress.balance" }
                   match_fields { id: 1 name: "hdr.flow.key" bitwidth: 8 match_type: EXACT }
                   action_refs { id: 2 } action_refs { id: 3 }
                   action_refs { id: 4 scope: DEFAULT_ONLY } implementation_id: 5 size: 1024 }
          actions { preamble { id: 2 name: "MyIngress.forward" }
                    params { id: 1 name: "port" bitwidth: 9 } }
          actions { preamble { id: 3 name: "MyIngress.drop" } }
          actions { preamble { id: 4 name: "NoAction" } }
          action_profiles { preamble { id: 5 name: "MyIngress.paths" } table_ids: 1
                            with_selector: true )" +
                                               limits + " }") {}

  static std::string forward(int port) {
    return R"(action { action_id: 2 params { param_id: 1 value: "\00)" + std::to_string(port) +
           R"(" } })";
  }
  static std::string member(unsigned id, const std::string& action) {
    return "action_profile_member { action_profile_id: 5 member_id: " + std::to_string(id) + " " +
           action + " }";
  }
  static std::string group(const std::string& members, unsigned id = 7) {
    return "action_profile_group { action_profile_id: 5 group_id: " + std::to_string(id) + " " +
           members + " }";
  }
  static std::string entry(const std::string& action, int key = 1) {
    return R"(table_entry { table_id: 1 match { field_id: 1 exact { value: "\00)" +
           std::to_string(key) + R"(" } } action { )" + action + " } }";
  }
  static std::string set(const std::string& actions) {
    return "action_profile_action_set { " + actions + " }";
  }
  static std::string choice(int port, const std::string& more = "weight: 1") {
    return "action_profile_actions { " + forward(port) + " " + more + " } ";
  }
};

TEST_F(SelectorTest, MembersGroupsAndEntries) {
  for (unsigned id : {1u, 2u, 3u}) {
    EXPECT_EQ(insert(member(id, forward(static_cast<int>(id)))), grpc::OK) << message_;
    expect_symmetric(member(id, forward(static_cast<int>(id))));
  }
  const std::string both = group(R"(members { member_id: 2 weight: 3 watch_port: "\001" }
               members { member_id: 1 weight: 1 } max_size: 6)");
  EXPECT_EQ(insert(both), grpc::OK) << message_;
  expect_symmetric(both);
  EXPECT_EQ(insert(entry("action_profile_group_id: 7")), grpc::OK) << message_;
  EXPECT_EQ(insert(entry("action_profile_member_id: 3", 2)), grpc::OK) << message_;
  expect_symmetric(entry("action_profile_group_id: 7"));
  expect_symmetric(entry("action_profile_member_id: 3", 2));
  EXPECT_EQ(read("action_profile_member { }").size(), 3u);
  EXPECT_EQ(read("action_profile_member { action_profile_id: 5 }").size(), 3u);
  EXPECT_EQ(read("action_profile_group { }").size(), 1u);
  EXPECT_TRUE(read(member(9, "")).empty());
  expect_snapshot_is_whole();

  EXPECT_EQ(remove(member(1, "")), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(remove(member(3, "")), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(remove(group("")), grpc::FAILED_PRECONDITION);
  expect_undone({update(Update::MODIFY, member(1, forward(4))),
                 update(Update::INSERT, member(4, forward(4))),
                 update(Update::MODIFY, group("members { member_id: 4 weight: 2 } max_size: 6")),
                 update(Update::DELETE, member(1, "")),
                 update(Update::MODIFY, entry("action_profile_member_id: 4", 2)),
                 update(Update::DELETE, member(3, "")),
                 update(Update::DELETE, entry("action_profile_group_id: 7")),
                 update(Update::DELETE, group(""))});
}

TEST_F(SelectorTest, GroupsKeepTheirLimits) {
  EXPECT_EQ(insert(member(1, forward(1))), grpc::OK);
  EXPECT_EQ(insert(group("members { member_id: 1 weight: 5 } max_size: 4")),
            grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(insert(group("members { member_id: 1 weight: 5 } max_size: 5")), grpc::OK);
  EXPECT_EQ(modify(group("members { member_id: 1 weight: 5 } max_size: 6")),
            grpc::INVALID_ARGUMENT);
  // The weights of all groups may add up to at most 8.
  EXPECT_EQ(insert(group("members { member_id: 1 weight: 4 }", 8)), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(insert(group("members { member_id: 1 weight: 3 }", 8)), grpc::OK) << message_;
  EXPECT_EQ(modify(group("members { member_id: 1 weight: 4 }", 8)), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(modify(group("members { member_id: 1 weight: 2 }", 8)), grpc::OK) << message_;
  EXPECT_EQ(insert(group("max_size: -1", 9)), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(group("", 0)), grpc::INVALID_ARGUMENT);
}

TEST_F(SelectorTest, WatchPortsExist) {
  EXPECT_EQ(insert(member(1, forward(1))), grpc::OK);
  for (const char* const port : {R"("\005")", R"("\376\001")", R"("\000")"})
    EXPECT_EQ(
        insert(group("members { member_id: 1 weight: 1 watch_port: " + std::string(port) + " }")),
        grpc::INVALID_ARGUMENT)
        << port;
  EXPECT_EQ(insert(group(R"(members { member_id: 1 weight: 1 watch_port: "\000\004" })")),
            grpc::OK);
  expect_symmetric(group(R"(members { member_id: 1 weight: 1 watch_port: "\004" })"));
  EXPECT_EQ(modify(group("members { member_id: 1 weight: 1 watch: 3 }")), grpc::OK) << message_;
  expect_symmetric(group("members { member_id: 1 weight: 1 watch: 3 }"));
}

TEST_F(SelectorTest, ActionSetsAreReadBackAsTheyWereWritten) {
  const std::string first =
      entry(set(choice(3, R"(weight: 2 watch_port: "\002")") + choice(1) + choice(1)));
  EXPECT_EQ(insert(first), grpc::OK) << message_;
  expect_symmetric(first);
  EXPECT_TRUE(read("action_profile_member { }").empty());
  EXPECT_TRUE(read("action_profile_group { }").empty());
  expect_snapshot_is_whole();
  EXPECT_EQ(insert(entry(set(choice(2, "weight: 5")), 2)), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(insert(entry(set(choice(2, "weight: 4")), 2)), grpc::OK) << message_;
  // It gets the room of what it replaces.
  EXPECT_EQ(modify(entry(set(choice(2, "weight: 5")), 2)), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(modify(entry(set(choice(4, "weight: 4")), 2)), grpc::OK) << message_;
  expect_symmetric(entry(set(choice(4, "weight: 4")), 2));
  // Without an action in the message, the action stays.
  EXPECT_EQ(modify(R"(table_entry { table_id: 1 match { field_id: 1 exact { value: "\002" } } })"),
            grpc::OK)
      << message_;
  expect_symmetric(entry(set(choice(4, "weight: 4")), 2));
  expect_undone({update(Update::MODIFY, entry(set(choice(1)), 2)),
                 update(Update::DELETE, entry("", 1)),
                 update(Update::INSERT, entry(set(choice(2, "weight: 7")), 3))});

  for (const std::string& wrong :
       {member(1, forward(1)), group(""), entry("action_profile_member_id: 1", 4),
        entry("action_profile_group_id: 1", 4)})
    EXPECT_EQ(insert(wrong), grpc::INVALID_ARGUMENT) << wrong;
  EXPECT_NE(message_.find("either groups or action sets"), std::string::npos) << message_;
}

TEST_F(SelectorTest, WrongActionSets) {
  for (const std::string& wrong :
       {set(choice(1, "")), set(choice(1, "weight: -1")), set(choice(1, R"(weight: 1 watch: 9)")),
        set("action_profile_actions { action { action_id: 2 } weight: 1 }"),
        set("action_profile_actions { action { action_id: 77 } weight: 1 }"), forward(1)})
    EXPECT_EQ(insert(entry(wrong)), grpc::INVALID_ARGUMENT) << wrong;
  EXPECT_EQ(insert(entry(set("action_profile_actions { action { action_id: 4 } weight: 1 }"))),
            grpc::PERMISSION_DENIED);
  for (const std::string& missing :
       {std::string("group_action { action_id: 3 }"), std::string("action_selection_mode: RANDOM"),
        std::string("size_semantics: SUM_OF_MEMBERS")})
    EXPECT_EQ(insert(entry(set(choice(1) + missing))), grpc::UNIMPLEMENTED) << missing;
  EXPECT_EQ(insert(entry(set(choice(1) + "action_selection_mode: HASH "
                                         "size_semantics: SUM_OF_WEIGHTS"))),
            grpc::OK)
      << message_;
  EXPECT_EQ(insert(entry(set(""), 2)), grpc::OK) << message_;  // an empty group
  EXPECT_EQ(insert(member(1, forward(1))), grpc::INVALID_ARGUMENT);
}

TEST_F(SelectorTest, TheDefaultActionIsNoActionAndConstant) {
  expect_symmetric(
      "table_entry { table_id: 1 is_default_action: true is_const: true action { action { "
      "action_id: 4 } } }");
  EXPECT_EQ(
      modify("table_entry { table_id: 1 is_default_action: true action { " + forward(1) + " } }"),
      grpc::PERMISSION_DENIED);
}

class MembersCountTest : public SelectorTest {
 protected:
  MembersCountTest()
      : SelectorTest("size: 3 max_group_size: 2 sum_of_members { max_member_weight: 100 }") {}
};
TEST_F(MembersCountTest, NotTheirWeights) {
  EXPECT_EQ(insert(entry(set(choice(1, "weight: 100") + choice(1, "weight: 100")))), grpc::OK)
      << message_;
  EXPECT_EQ(insert(entry(set(choice(1) + choice(2) + choice(3)), 2)), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(entry(set(choice(1, "weight: 101")), 2)), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(entry(set(choice(1) + choice(2)), 2)), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(insert(entry(set(choice(1)), 2)), grpc::OK) << message_;
}
TEST_F(MembersCountTest, GroupsSayHowLargeTheyBecome) {
  EXPECT_EQ(insert(group("")), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(group("max_size: 3")), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(group("max_size: 2")), grpc::OK) << message_;
}

class NoWeightsTest : public SelectorTest {
 protected:
  NoWeightsTest() : SelectorTest("size: 8 weights_disallowed: true") {}
};
TEST_F(NoWeightsTest, WeightsAreZero) {
  EXPECT_EQ(insert(entry(set(choice(1)))), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(entry(set(choice(1, "")))), grpc::OK) << message_;
  expect_symmetric(entry(set(choice(1, ""))));
}

// --- Digests ---

class DigestTest : public EntityFixture {
 protected:
  explicit DigestTest(const std::string& type = R"(struct { name: "learnt_t" })")
      : EntityFixture(program("digest"), R"(
          digests { preamble { id: 3 name: "learnt_t" } type_spec { )" +
                                             type + R"( } }
          type_info {
            structs { key: "learnt_t" value {
              members { name: "value" type_spec { bitstring { bit { bitwidth: 8 } } } }
              members { name: "port" type_spec { new_type { name: "port_t" } } } } }
            structs { key: "nested_t" value {
              members { name: "value" type_spec { tuple { members { bool { } } } } }
              members { name: "port" type_spec { header { name: "port_h" } } } } }
            structs { key: "signed_t" value {
              members { name: "value" type_spec { bitstring { int { bitwidth: 8 } } } }
              members { name: "port" type_spec { header { name: "signed_h" } } } } }
            headers { key: "port_h" value { members { name: "port" } } }
            headers { key: "signed_h" value {
              members { name: "port" type_spec { int { bitwidth: 9 } } } } }
            new_types { key: "port_t" value {
              original_type { bitstring { bit { bitwidth: 9 } } } } }
          })") {}
  p4::v1::DigestList list() const {
    static constexpr unsigned kWidths[] = {8, 9};
    static constexpr std::byte kBytes[] = {std::byte{0}, std::byte{0}, std::byte{7},
                                           std::byte{1}, std::byte{1}, std::byte{0}};
    return digest_message(info_, {"learnt_t", 5, 0, 2, kWidths, kBytes}, 99);
  }
};

TEST_F(DigestTest, AreConfigured) {
  const char* const config = R"(digest_entry {
    digest_id: 3 config { max_timeout_ns: 5 max_list_size: 6 ack_timeout_ns: 7 } })";
  EXPECT_EQ(modify(config), grpc::NOT_FOUND);
  EXPECT_EQ(remove(config), grpc::NOT_FOUND);
  EXPECT_EQ(read_refused(config), grpc::NOT_FOUND);
  EXPECT_TRUE(read("digest_entry { }").empty());
  EXPECT_EQ(insert(config), grpc::OK) << message_;
  EXPECT_EQ(insert(config), grpc::ALREADY_EXISTS);
  expect_symmetric(config);
  EXPECT_EQ(read("digest_entry { }").size(), 1u);
  expect_snapshot_is_whole();
  expect_undone({update(Update::MODIFY, "digest_entry { digest_id: 3 }"),
                 update(Update::DELETE, "digest_entry { digest_id: 3 }")});
  EXPECT_EQ(insert("digest_entry { digest_id: 4 }"), grpc::NOT_FOUND);
  EXPECT_EQ(read_refused("digest_entry { digest_id: 4 }"), grpc::NOT_FOUND);
  for (const char* const wrong : {"max_timeout_ns", "max_list_size", "ack_timeout_ns"})
    EXPECT_EQ(insert("digest_entry { digest_id: 3 config { " + std::string(wrong) + ": -1 } }"),
              grpc::INVALID_ARGUMENT);
}

TEST_F(DigestTest, ListsAreStructs) {
  EXPECT_TRUE(MessageDifferencer::Equals(list(), parse_text<p4::v1::DigestList>(R"(
    digest_id: 3 list_id: 5 timestamp: 99
    data { struct { members { bitstring: "\000" } members { bitstring: "\007" } } }
    data { struct { members { bitstring: "\001" } members { bitstring: "\001\000" } } })")))
      << list().ShortDebugString();
}

class NestedDigestTest : public DigestTest {
 protected:
  NestedDigestTest() : DigestTest(R"(struct { name: "nested_t" })") {}
};
TEST_F(NestedDigestTest, ListsHaveTheirTypesForm) {
  EXPECT_EQ(insert("digest_entry { digest_id: 3 }"), grpc::OK) << message_;
  EXPECT_TRUE(MessageDifferencer::Equals(list(), parse_text<p4::v1::DigestList>(R"(
    digest_id: 3 list_id: 5 timestamp: 99
    data { struct { members { tuple { members { bool: false } } }
                    members { header { is_valid: true bitstrings: "\007" } } } }
    data { struct { members { tuple { members { bool: true } } }
                    members { header { is_valid: true bitstrings: "\001\000" } } } })")))
      << list().ShortDebugString();
}

class SignedDigestTest : public DigestTest {
 protected:
  SignedDigestTest() : DigestTest(R"(struct { name: "signed_t" })") {}
};
TEST_F(SignedDigestTest, ListsHaveTwosComplement) {
  EXPECT_TRUE(MessageDifferencer::Equals(list(), parse_text<p4::v1::DigestList>(R"(
    digest_id: 3 list_id: 5 timestamp: 99
    data { struct { members { bitstring: "\000" } members { header { is_valid: true bitstrings: "\007" } } } }
    data { struct { members { bitstring: "\001" } members { header { is_valid: true bitstrings: "\xff\x00" } } } })")))
      << list().ShortDebugString();
}

class ShortDigestTest : public DigestTest {
 protected:
  ShortDigestTest() : DigestTest("bitstring { bit { bitwidth: 8 } }") {}
};
TEST_F(ShortDigestTest, FieldsThatDoNotFitAreNotServed) {
  EXPECT_EQ(insert("digest_entry { digest_id: 3 }"), grpc::UNIMPLEMENTED);
  EXPECT_NE(message_.find("P4Info has 1 fields, the program 2"), std::string::npos) << message_;
}

// A type may contain itself, or become too large by being used twice at each of many levels.
TEST_F(DigestTest, EndlessTypesAreRefused) {
  const auto refusal = [&](const std::string& members_of_a) {
    auto p4info = p4info_;
    p4info.mutable_digests(0)->mutable_type_spec()->mutable_struct_()->set_name("a");
    p4info.mutable_type_info()->MergeFrom(parse_text<p4::config::v1::P4TypeInfo>(
        "structs { key: \"a\" value { " + members_of_a + " } }"));
    try {
      ProgramInfo(p4info, info_.program());
      return std::string("accepted");
    } catch (const RequestError& error) {
      EXPECT_EQ(error.code(), grpc::INVALID_ARGUMENT);
      return std::string(error.what());
    }
  };
  const std::string valid =
      "P4Info: digest learnt_t: its type contains itself, or has more than 1024 parts";
  EXPECT_EQ(refusal(R"(members { type_spec { struct { name: "a" } } })"), valid);
  EXPECT_EQ(refusal(R"(members { type_spec { tuple { members { new_type { name: "b" } } } } } } }
                       new_types { key: "b" value { original_type { struct { name: "a" } })"),
            valid);
  std::string doubled = R"(members { type_spec { struct { name: "l0" } } })";
  for (int level = 0; level < 40; ++level) {
    const std::string below =
        level == 39 ? "bool { }" : "struct { name: \"l" + std::to_string(level + 1) + "\" }";
    const std::string member = " members { type_spec { " + below + " } }";
    doubled += " } } structs { key: \"l" + std::to_string(level) + "\" value {" + member + member;
  }
  EXPECT_EQ(refusal(doubled), valid);
}

// --- Value sets ---

class ValueSetTest : public EntityFixture {
 protected:
  explicit ValueSetTest(const std::string& large = "TERNARY")
      : EntityFixture(program("value_set"), R"(
          value_sets { preamble { id: 6 name: "Parse.known" } size: 4
                       match { id: 1 name: "small" bitwidth: 4 match_type: EXACT }
                       match { id: 2 name: "large" bitwidth: 12 match_type: )" +
                                                large + " } }") {}
  static std::string set(const std::string& members) {
    return "value_set_entry { value_set_id: 6 " + members + " }";
  }
  static std::string member(const std::string& small, const std::string& rest = "") {
    return R"(members { match { field_id: 1 exact { value: "\0)" + small + "\" } } " + rest + "} ";
  }
};

TEST_F(ValueSetTest, AreWrittenAsAWhole) {
  EXPECT_EQ(read("value_set_entry { }").size(), 1u);
  const std::string two =
      set(member("01", R"(match { field_id: 2 ternary { value: "\001\003" mask: "\001\377" } })") +
          member("02"));
  EXPECT_EQ(modify(two), grpc::OK) << message_;
  expect_symmetric(two);
  expect_snapshot_is_whole();
  expect_undone({update(Update::MODIFY, set("")), update(Update::MODIFY, set(member("07")))});
  EXPECT_EQ(insert(two), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(remove(two), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(modify("value_set_entry { value_set_id: 1 }"), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(read_refused("value_set_entry { value_set_id: 1 }"), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(modify(set(member("01") + member("02") + member("03") + member("04") + member("05"))),
            grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(modify(set(member("01") + member("01"))), grpc::ALREADY_EXISTS);
  EXPECT_EQ(modify(set(member("01") + member("20"))), grpc::OUT_OF_RANGE);
  EXPECT_EQ(modify(set("members { }")), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(modify(set(member("01", R"(match { field_id: 3 exact { value: "\001" } })"))),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(modify(set(member("01", R"(match { field_id: 2 exact { value: "\001" } })"))),
            grpc::INVALID_ARGUMENT);
  expect_symmetric(set(member("07")));
}

class PrefixSetTest : public ValueSetTest {
 protected:
  PrefixSetTest() : ValueSetTest("LPM") {}
};
TEST_F(PrefixSetTest, PrefixesAreReadBack) {
  const std::string prefixes =
      set(member("01", R"(match { field_id: 2 lpm { value: "\n\000" prefix_len: 5 } })") +
          member("01", R"(match { field_id: 2 lpm { value: "\n\000" prefix_len: 12 } })"));
  EXPECT_EQ(modify(prefixes), grpc::OK) << message_;
  expect_symmetric(prefixes);
}

class RangeSetTest : public ValueSetTest {
 protected:
  RangeSetTest() : ValueSetTest("RANGE") {}
};
TEST_F(RangeSetTest, RangesAreNotSupported) {
  EXPECT_EQ(modify(set(member("01"))), grpc::OK) << message_;
  EXPECT_EQ(
      modify(set(member("01", R"(match { field_id: 2 range { low: "\001" high: "\002" } })"))),
      grpc::UNIMPLEMENTED);
}

// --- Idle timeouts ---

class IdleTest : public EntityFixture {
 protected:
  explicit IdleTest(const std::string& behaviour = "NOTIFY_CONTROL")
      : EntityFixture(program("idle"), R"(
          tables { preamble { id: 1 name: "MyIngress.seen" }
                   match_fields { id: 1 name: "hdr.byte.value" bitwidth: 8 match_type: EXACT }
                   action_refs { id: 2 } action_refs { id: 3 } size: 1024
                   idle_timeout_behavior: )" +
                                           behaviour + R"( }
          actions { preamble { id: 2 name: "MyIngress.forward" }
                    params { id: 1 name: "port" bitwidth: 9 } }
          actions { preamble { id: 3 name: "NoAction" } })") {}
  static std::string entry(const std::string& more) {
    return R"(table_entry { table_id: 1 match { field_id: 1 exact { value: "\005" } } )" + more +
           " }";
  }
};

TEST_F(IdleTest, TimeOutsAreKeptAndIdleTimesRead) {
  const std::string action = "action { action { action_id: 3 } } ";
  EXPECT_EQ(insert(entry(action + "idle_timeout_ns: 30000000")), grpc::OK) << message_;
  expect_symmetric(entry(action + "idle_timeout_ns: 30000000"));
  expect_snapshot_is_whole();
  pipeline_.advance(20'000'000);
  const auto found = read(entry("time_since_last_hit { }"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].table_entry().time_since_last_hit().elapsed_ns(), 20'000'000);
  EXPECT_FALSE(read(entry("")).at(0).table_entry().has_time_since_last_hit());
  EXPECT_TRUE(read("table_entry { time_since_last_hit { } }")
                  .at(0)
                  .table_entry()
                  .has_time_since_last_hit());
  expect_undone(
      {update(Update::MODIFY, entry("idle_timeout_ns: 5")), update(Update::DELETE, entry(""))});
  for (const char* const wrong : {"idle_timeout_ns: -1", "time_since_last_hit { }"})
    EXPECT_EQ(insert(entry(action + wrong)), grpc::INVALID_ARGUMENT) << wrong;
  const std::string by_default = "table_entry { table_id: 1 is_default_action: true ";
  EXPECT_EQ(modify(by_default + "idle_timeout_ns: 5 }"), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(read_refused(by_default + "time_since_last_hit { } }"), grpc::INVALID_ARGUMENT);
}

class NeverIdleTest : public IdleTest {
 protected:
  NeverIdleTest() : IdleTest("NO_TIMEOUT") {}
};
TEST_F(NeverIdleTest, TimeOutsAreRefused) {
  const std::string action = "action { action { action_id: 3 } } ";
  EXPECT_EQ(insert(entry(action + "idle_timeout_ns: 1")), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(entry(action)), grpc::OK);
  EXPECT_EQ(read_refused(entry("time_since_last_hit { }")), grpc::INVALID_ARGUMENT);
  EXPECT_FALSE(read("table_entry { time_since_last_hit { } }")
                   .at(0)
                   .table_entry()
                   .has_time_since_last_hit());
}

}  // namespace
}  // namespace tiercast::vswitch
