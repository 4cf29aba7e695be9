// Writes and reads of P4Runtime entities on the compiled tiercast.p4.
#include "tests/dataplane/switch/p4runtime/entity_fixture.h"

namespace tiercast::vswitch {
namespace {

class EntitiesTest : public EntityFixture {
 protected:
  EntitiesTest()
      : EntityFixture(TIERCAST_P4_COMPILED "/tiercast.json",
                      read_file(TIERCAST_P4_COMPILED "/tiercast.p4info.txtpb")) {}
};

const char* const kHost = R"(table_entry {
  table_id: $ipv4_host match { field_id: 1 exact { value: "\n\000\001\002" } }
  action { action { action_id: $forward params { param_id: 1 value: "\002" }
                    params { param_id: 2 value: "\002\000\000\000\000\017" } } }
  controller_metadata: 77 metadata: "host" })";
const char* const kPrefix = R"(table_entry {
  table_id: $ipv4_lpm match { field_id: 1 lpm { value: "\n\000\000\000" prefix_len: 8 } }
  action { action { action_id: $drop } } })";

TEST_F(EntitiesTest, AnEntryIsInsertedReadModifiedAndDeletedOnce) {
  EXPECT_EQ(insert(kHost), grpc::OK) << message_;
  expect_symmetric(kHost);
  EXPECT_EQ(insert(kHost), grpc::ALREADY_EXISTS);
  EXPECT_EQ(modify(kHost), grpc::OK) << message_;
  EXPECT_EQ(remove(kHost), grpc::OK) << message_;
  EXPECT_EQ(remove(kHost), grpc::NOT_FOUND);
  EXPECT_EQ(modify(kHost), grpc::NOT_FOUND);
  EXPECT_TRUE(read(kHost).empty());
}

TEST_F(EntitiesTest, ValuesAreReadBackInTheShortestForm) {
  EXPECT_EQ(insert(R"(table_entry {
    table_id: $top_group match { field_id: 1 exact { value: "\000\000\003" } }
    match { field_id: 2 exact { value: "\000\007" } }
    action { action { action_id: $set_top_group params { param_id: 1 value: "\000\004" } } } })"),
            grpc::OK)
      << message_;
  expect_symmetric(R"(table_entry {
    table_id: $top_group match { field_id: 1 exact { value: "\003" } }
    match { field_id: 2 exact { value: "\007" } }
    action { action { action_id: $set_top_group params { param_id: 1 value: "\004" } } } })");
}

TEST_F(EntitiesTest, PrefixesAndTheDontCareEntry) {
  EXPECT_EQ(insert(kPrefix), grpc::OK) << message_;
  expect_symmetric(kPrefix);
  EXPECT_EQ(insert(R"(table_entry { table_id: $ipv4_lpm action { action { action_id: $drop } } })"),
            grpc::OK)
      << message_;
  const auto all = read("table_entry { table_id: $ipv4_lpm }");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].table_entry().match_size() + all[1].table_entry().match_size(), 1);
}

TEST_F(EntitiesTest, WrongEntriesAreRefusedWithTheStandardsCodes) {
  const auto host = [](const std::string& match, const std::string& action) {
    return "table_entry { table_id: $ipv4_host " + match + " action { action { " + action +
           " } } }";
  };
  const std::string match = R"(match { field_id: 1 exact { value: "\n\000\000\001" } })";
  const std::string drop = "action_id: $drop ";
  EXPECT_EQ(insert(host(match, drop)), grpc::OK) << message_;
  EXPECT_EQ(insert("table_entry { table_id: 1 }"), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(host("", drop)), grpc::INVALID_ARGUMENT);
  EXPECT_NE(message_.find("hdr.ipv4.dst_addr is missing"), std::string::npos) << message_;
  EXPECT_EQ(insert(host(R"(match { field_id: 9 exact { value: "\n" } })" + match, drop)),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(host(R"(match { field_id: 1 lpm { value: "\n" prefix_len: 32 } })", drop)),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(host(R"(match { field_id: 1 exact { value: "\001\n\000\000\001" } })", drop)),
            grpc::OUT_OF_RANGE);
  EXPECT_EQ(insert(host(match, "action_id: $replicate ")), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(host(match, "action_id: $forward ")), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(host(match, "action_id: $NoAction ")), grpc::PERMISSION_DENIED);
  EXPECT_EQ(insert(host(match + " priority: 1", drop)), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(R"(table_entry { table_id: $ipv4_lpm
      match { field_id: 1 lpm { value: "\n\000\000\001" prefix_len: 8 } }
      action { action { action_id: $drop } } })"),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(R"(table_entry { table_id: $ipv4_lpm
      match { field_id: 1 lpm { value: "\000" } }
      action { action { action_id: $drop } } })"),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert("meter_entry { }"), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert("extern_entry { }"), grpc::UNIMPLEMENTED);
  EXPECT_EQ(insert(""), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(write(Update::UNSPECIFIED, entity(kHost)), grpc::INVALID_ARGUMENT);
}

TEST_F(EntitiesTest, DefaultActions) {
  const std::string text = R"(table_entry { table_id: $ipv4_lpm is_default_action: true
                                            action { action { action_id: $drop } } )";
  EXPECT_EQ(modify(text + "}"), grpc::PERMISSION_DENIED);  // declared const
  EXPECT_EQ(insert(text + "}"), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(remove(text + "}"), grpc::INVALID_ARGUMENT);
  expect_symmetric(text + "is_const: true }");
}

TEST_F(EntitiesTest, MulticastGroups) {
  const char* const group = R"(packet_replication_engine_entry { multicast_group_entry {
    multicast_group_id: 8 replicas { egress_port: 1 instance: 0 }
    replicas { egress_port: 2 instance: 9 } metadata: "m" } })";
  EXPECT_EQ(modify(group), grpc::NOT_FOUND);
  EXPECT_EQ(insert(group), grpc::OK) << message_;
  EXPECT_EQ(insert(group), grpc::ALREADY_EXISTS);
  expect_symmetric(group);
  const char* const by_bytes = R"(packet_replication_engine_entry { multicast_group_entry {
    multicast_group_id: 8 replicas { port: "\001" instance: 3 } } })";
  EXPECT_EQ(modify(by_bytes), grpc::OK) << message_;
  expect_symmetric(by_bytes);
  EXPECT_EQ(remove(group), grpc::OK);
  EXPECT_EQ(remove(group), grpc::NOT_FOUND);

  const auto wrong = [](const std::string& replicas) {
    return "packet_replication_engine_entry { multicast_group_entry { " + replicas + " } }";
  };
  EXPECT_EQ(insert(wrong("multicast_group_id: 0")), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(wrong("multicast_group_id: 70000")), grpc::OUT_OF_RANGE);
  EXPECT_EQ(insert(wrong("multicast_group_id: 1 replicas { egress_port: 512 }")),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(wrong("multicast_group_id: 1 replicas { egress_port: 1 instance: 65536 }")),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(wrong("multicast_group_id: 1 replicas { egress_port: 1 } "
                         "replicas { egress_port: 1 }")),
            grpc::INVALID_ARGUMENT);
}

TEST_F(EntitiesTest, CloneSessions) {
  const char* const session = R"(packet_replication_engine_entry { clone_session_entry {
    session_id: 5 replicas { egress_port: 510 instance: 1 } packet_length_bytes: 128 } })";
  EXPECT_EQ(insert(session), grpc::OK) << message_;
  expect_symmetric(session);
  EXPECT_EQ(insert(session), grpc::ALREADY_EXISTS);
  EXPECT_EQ(remove(session), grpc::OK);
  EXPECT_EQ(remove(session), grpc::NOT_FOUND);
  EXPECT_EQ(insert("packet_replication_engine_entry { clone_session_entry { session_id: 0 } }"),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(insert(R"(packet_replication_engine_entry { clone_session_entry {
                        session_id: 1 class_of_service: 2 } })"),
            grpc::INVALID_ARGUMENT);
}

TEST_F(EntitiesTest, Counters) {
  const char* const cell = R"(counter_entry { counter_id: $egress_fates index { index: 3 }
                                              data { packet_count: 7 byte_count: 9000 } })";
  EXPECT_EQ(modify(cell), grpc::OK) << message_;
  expect_symmetric(cell);
  EXPECT_EQ(insert(cell), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(read_refused("counter_entry { counter_id: $egress_fates index { index: -1 } }"),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(read_refused("counter_entry { counter_id: $egress_fates index { index: 133120 } }"),
            grpc::OUT_OF_RANGE);
  EXPECT_EQ(read("counter_entry { counter_id: $egress_fates }").size(), 133120u);
  std::uint64_t cells = 0;
  for (const auto& counter : p4info_.counters())
    cells += static_cast<std::uint64_t>(counter.size());
  EXPECT_EQ(read("counter_entry { }").size(), cells);
  EXPECT_EQ(read_in_turns("counter_entry { }", 10'000).size(), cells);
  EXPECT_EQ(modify("counter_entry { counter_id: $egress_fates data { } }"), grpc::OK);
  EXPECT_EQ(read(cell).at(0).counter_entry().data().packet_count(), 0);
}

TEST_F(EntitiesTest, Registers) {
  const char* const cell = R"(register_entry { register_id: $avg_queue index { index: 2 }
                                               data { bitstring: "\004\000" } })";
  EXPECT_EQ(modify(cell), grpc::OK) << message_;
  expect_symmetric(cell);
  EXPECT_EQ(remove(cell), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(modify(R"(register_entry { register_id: $avg_queue index { index: 2 }
                                       data { bitstring: "\001\000\000\000\000" } })"),
            grpc::OUT_OF_RANGE);
  EXPECT_EQ(modify(R"(register_entry { register_id: $avg_queue index { index: 2 }
                                       data { bool: true } })"),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(modify(R"(register_entry { register_id: $avg_queue data { bitstring: "\007" } })"),
            grpc::OK);
  const auto all = read("register_entry { register_id: $avg_queue }");
  ASSERT_EQ(all.size(), 512u);
  for (const Entity& each : all) EXPECT_EQ(each.register_entry().data().bitstring(), "\007");
  EXPECT_EQ(read_refused("register_entry { register_id: 1 }"), grpc::INVALID_ARGUMENT);
}

TEST_F(EntitiesTest, WildcardReadsSelect) {
  const std::size_t constant_entries = read("table_entry { }").size();
  insert(kHost);
  insert(kPrefix);
  EXPECT_EQ(read("table_entry { }").size(), constant_entries + 2);
  EXPECT_EQ(read("table_entry { table_id: $ipv4_host }").size(), 1u);
  EXPECT_EQ(read("table_entry { table_id: $ipv4_host controller_metadata: 77 }").size(), 1u);
  EXPECT_EQ(read("table_entry { table_id: $ipv4_host controller_metadata: 78 }").size(), 0u);
  EXPECT_EQ(read(R"(table_entry { table_id: $ipv4_host metadata: "host" })").size(), 1u);
  EXPECT_EQ(
      read("table_entry { table_id: $ipv4_host action { action { action_id: $drop } } }").size(),
      0u);
  EXPECT_EQ(read_refused(""), grpc::INVALID_ARGUMENT);
}

TEST_F(EntitiesTest, ASnapshotGivesAFreshSwitchTheSameState) {
  insert(kHost);
  insert(kPrefix);
  insert(R"(packet_replication_engine_entry { multicast_group_entry {
              multicast_group_id: 8 replicas { egress_port: 1 } metadata: "m" } })");
  modify(R"(register_entry { register_id: $avg_queue index { index: 2 }
                             data { bitstring: "\004" } })");
  expect_snapshot_is_whole();
}

TEST_F(EntitiesTest, AllCellsOfAnArrayAreWrittenAtOnceAndUndone) {
  const auto all = [](int packets) {
    return "counter_entry { counter_id: $entered data { packet_count: " + std::to_string(packets) +
           " } }";
  };
  ASSERT_EQ(modify(all(3)), grpc::OK) << message_;
  for (const Entity& cell : read("counter_entry { counter_id: $entered }"))
    ASSERT_EQ(cell.counter_entry().data().packet_count(), 3);
  expect_undone({update(Update::MODIFY, all(4))});
}

TEST_F(EntitiesTest, ATransactionHasRoomForTheCellsThatItMayUndo) {
  const std::string large = "counter_entry { counter_id: $egress_fates data { packet_count: 1 } }";
  google::protobuf::RepeatedPtrField<Update> batch;
  *batch.Add() = update(Update::MODIFY, large);
  EXPECT_EQ(write_all_or_none(target_, batch)[0].error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(modify(large), grpc::OK) << message_;
}

// Numbers, priorities and flags are those of p4c's own file of entries (--p4runtime-entries-files).
class InitialEntriesTest : public EntityFixture {
 protected:
  InitialEntriesTest()
      : EntityFixture(TIERCAST_TEST_P4 "/entries.json",
                      read_file(TIERCAST_TEST_P4 "/entries.p4info.txtpb")) {}
  static std::string fixed(const std::string& match, const std::string& more) {
    return "table_entry { table_id: $MyIngress.fixed " + match + more + " }";
  }
  static std::string ternary(const std::string& value, const std::string& mask) {
    return "match { field_id: 1 ternary { value: \"" + value + "\" mask: \"" + mask + "\" } } ";
  }
  static std::string started(const std::string& value, int priority, int port) {
    return "table_entry { table_id: $MyIngress.started " +
           (value.empty() ? "" : ternary(value, "\\377")) +
           "priority: " + std::to_string(priority) +
           " action { action { action_id: $MyIngress.to params { param_id: 1 value: \"" +
           std::string(1, static_cast<char>('0' + port)) + "\" } } } }";
  }
};

TEST_F(InitialEntriesTest, OfAConstantTableAreConstant) {
  const auto counted = [](int port, int priority) {
    return "action { action { action_id: $MyIngress.counted params { param_id: 1 value: \"\\00" +
           std::to_string(port) + "\" } } } priority: " + std::to_string(priority) +
           " is_const: true";
  };
  const std::vector<std::string> all = {fixed(ternary("\\022", "\\377"), counted(3, 3)),
                                        fixed(ternary("\\020", "\\360"), counted(4, 2)),
                                        fixed("", counted(5, 1))};
  const auto found = read("table_entry { table_id: $MyIngress.fixed }");
  ASSERT_EQ(found.size(), all.size());
  for (const std::string& each : all) {
    const bool there = std::any_of(found.begin(), found.end(), [&](const Entity& one) {
      return MessageDifferencer::Equals(one, entity(each));
    });
    EXPECT_TRUE(there) << each << "\n" << found[0].ShortDebugString();
  }
  const std::string key = ternary("\\022", "\\377") + "priority: 3 ";
  EXPECT_EQ(modify("direct_counter_entry { " + fixed(key, "") + " data { packet_count: 4 } }"),
            grpc::OK)
      << message_;
  EXPECT_EQ(modify(fixed(key, "counter_data { packet_count: 5 }")), grpc::OK) << message_;
  google::protobuf::RepeatedPtrField<Update> batch;
  *batch.Add() = update(Update::MODIFY, fixed(key, "counter_data { packet_count: 6 }"));
  batch.Add();  // invalid: no entity
  EXPECT_EQ(write_all_or_none(target_, batch)[0].error_code(), grpc::ABORTED);
  expect_symmetric("direct_counter_entry { " + fixed(key, "") + " data { packet_count: 5 } }");
  EXPECT_EQ(modify(all[0]), grpc::INVALID_ARGUMENT) << "is_const is for reads alone";
  const std::string changed = fixed(
      key,
      "action { action { action_id: $MyIngress.counted params { param_id: 1 value: \"1\" } } }");
  EXPECT_EQ(insert(changed), grpc::PERMISSION_DENIED) << message_;
  EXPECT_EQ(modify(changed), grpc::PERMISSION_DENIED) << message_;
  EXPECT_EQ(remove(changed), grpc::PERMISSION_DENIED) << message_;
}

TEST_F(InitialEntriesTest, ASnapshotHasTheCountersOfConstantOnes) {
  const std::string key = ternary("\\022", "\\377") + "priority: 3 ";
  ASSERT_EQ(modify("direct_counter_entry { " + fixed(key, "") + " data { packet_count: 4 } }"),
            grpc::OK)
      << message_;
  EXPECT_NE(text_of(snapshot(target_)).find("packet_count: 4"), std::string::npos);
  expect_snapshot_is_whole();
}

TEST_F(InitialEntriesTest, DefaultActionsSayWhetherTheyAreConstant) {
  const auto is_const = [&](const std::string& table) {
    const auto found =
        read("table_entry { table_id: $MyIngress." + table + " is_default_action: true }");
    return found.at(0).table_entry().is_const();
  };
  EXPECT_TRUE(is_const("fixed"));
  EXPECT_FALSE(is_const("started"));
}

TEST_F(InitialEntriesTest, OfAnotherTableAreAsAnyOther) {
  const auto found = read("table_entry { table_id: $MyIngress.started priority: 1 }");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].table_entry().match_size(), 0);
  EXPECT_FALSE(found[0].table_entry().is_const());
  EXPECT_EQ(insert(started("\\001", 2, 5)), grpc::ALREADY_EXISTS) << message_;
  expect_undone({update(Update::MODIFY, started("\\001", 2, 5))});
  expect_undone({update(Update::DELETE, started("", 1, 7))});
  for (int value = 2; value < 8; ++value) {  // up to the table's size in P4Info
    EXPECT_EQ(insert(started("\\00" + std::to_string(value), 2, 5)), grpc::OK) << message_;
  }
  EXPECT_EQ(read("table_entry { table_id: $MyIngress.started }").size(), 7u);
  expect_snapshot_is_whole();
}

TEST_F(EntitiesTest, P4InfoOfAnotherProgramIsRefused) {
  p4::config::v1::P4Info other = p4info_;
  other.mutable_tables(0)->mutable_preamble()->set_name("elsewhere");
  try {
    ProgramInfo(other, info_.program());
    FAIL() << "accepted";
  } catch (const RequestError& error) {
    EXPECT_EQ(error.code(), grpc::INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.what()).find("table elsewhere is not in the program"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tiercast::vswitch
