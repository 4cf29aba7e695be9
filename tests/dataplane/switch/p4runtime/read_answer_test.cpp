// What answers to Reads may hold together while they wait for their readers.
#include "dataplane/switch/p4runtime/read_answer.h"

#include <gtest/gtest.h>

#include "dataplane/switch/p4runtime/translate/errors.h"

namespace tiercast::vswitch {
namespace {

constexpr std::size_t kMemory = 1u << 20;

p4::v1::Entity counter(std::int64_t index) {
  p4::v1::Entity entity;
  entity.mutable_counter_entry()->set_counter_id(7);
  entity.mutable_counter_entry()->mutable_index()->set_index(index);
  return entity;
}

// The number of counters that an answer takes before its memory is full.
std::int64_t add_until_full(ReadAnswer& answer) {
  for (std::int64_t n = 0;; ++n) {
    try {
      answer.add(counter(n));
    } catch (const RequestError& error) {
      EXPECT_EQ(error.code(), grpc::RESOURCE_EXHAUSTED);
      return n;
    }
  }
}

TEST(ReadAnswer, TakesWhatThereIsMemoryFor) {
  AnswerMemory memory(kMemory);
  ReadAnswer answer(memory);
  const std::int64_t bytes = add_until_full(answer) * counter(1 << 20).ByteSizeLong();
  EXPECT_GT(bytes, static_cast<std::int64_t>(kMemory) / 2);
  EXPECT_LT(bytes, static_cast<std::int64_t>(kMemory) * 2);
}

TEST(ReadAnswer, HasRoomForOneResponseWhateverOthersHold) {
  AnswerMemory memory(kMemory);
  ReadAnswer large(memory);
  add_until_full(large);
  ReadAnswer small(memory);
  EXPECT_GE(add_until_full(small), static_cast<std::int64_t>(kEntitiesAtOnce));
}

TEST(ReadAnswer, GivesItsMemoryBack) {
  AnswerMemory memory(kMemory);
  {
    ReadAnswer answer(memory);
    add_until_full(answer);
    EXPECT_FALSE(memory.take(kMemory));
  }
  EXPECT_TRUE(memory.take(kMemory));
}

}  // namespace
}  // namespace tiercast::vswitch
