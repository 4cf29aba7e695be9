// What a batch that may be undone, and a read by key, take does not grow with the table: operator
// new is counted.
#include "tests/dataplane/switch/p4runtime/entity_fixture.h"
#include "tests/support/allocations.h"

namespace tiercast::vswitch {
namespace {

class LargeTable : public EntityFixture {
 protected:
  LargeTable()
      : EntityFixture(TIERCAST_P4_COMPILED "/tiercast.json",
                      read_file(TIERCAST_P4_COMPILED "/tiercast.p4info.txtpb")),
        host_(entity(R"(table_entry {
          table_id: $ipv4_host match { field_id: 1 exact { value: "1234" } }
          action { action { action_id: $forward params { param_id: 1 value: "\002" }
                            params { param_id: 2 value: "\017" } } } })")) {}

  void fill(unsigned from, unsigned to) {
    for (unsigned i = from; i < to; ++i) {
      Entity other = host_;
      const std::string address = {'\n', '\1', static_cast<char>(i >> 8), static_cast<char>(i)};
      other.mutable_table_entry()->mutable_match(0)->mutable_exact()->set_value(address);
      ASSERT_EQ(write(Update::INSERT, other), grpc::OK) << message_;
    }
  }
  std::size_t allocations_of_a_batch() {
    google::protobuf::RepeatedPtrField<Update> batch;
    for (const Update::Type type : {Update::MODIFY, Update::DELETE, Update::INSERT}) {
      batch.Add()->set_type(type);
      *batch.rbegin()->mutable_entity() = host_;
    }
    const CountAllocations count;
    const std::size_t before = allocations().count;
    for (const grpc::Status& status : write_all_or_none(target_, batch)) {
      EXPECT_TRUE(status.ok()) << status.error_message();
    }
    return allocations().count - before;
  }
  std::size_t allocations_of_a_read() {
    const CountAllocations count;
    const std::size_t before = allocations().count;
    std::size_t found = 0;
    read_entities(target_, host_, [&](Entity&&) { ++found; });
    EXPECT_EQ(found, 1u);
    return allocations().count - before;
  }

  const Entity host_;
};

TEST_F(LargeTable, CostsNoMoreThanASmallOne) {
  ASSERT_EQ(write(Update::INSERT, host_), grpc::OK) << message_;
  fill(0, 10);
  const std::size_t batch = allocations_of_a_batch(), read = allocations_of_a_read();
  fill(10, 2000);
  EXPECT_EQ(allocations_of_a_batch(), batch);
  EXPECT_EQ(allocations_of_a_read(), read);
}

}  // namespace
}  // namespace tiercast::vswitch
