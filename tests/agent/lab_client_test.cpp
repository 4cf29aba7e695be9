#include "agent/lab_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "tests/agent/lab.h"

namespace tiercast::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::Hello hello() {
  v1::Hello message;
  message.set_role(v1::ROLE_RECEIVER);
  message.set_name("h15");
  message.set_version(2);
  return message;
}

v1::Records records(int value) {
  v1::Records batch;
  v1::Record& record = *batch.add_records();
  record.set_kind("x");
  v1::Field& field = *record.add_fields();
  field.set_name("v");
  field.set_value(value);
  return batch;
}

// The next event. Takes it as a loop would, only once the descriptor is readable.
std::optional<LabEvent> next_event(LabClient& client) {
  for (int i = 0; i < 600; ++i) {
    pollfd wait{client.descriptor(), POLLIN, 0};
    ::poll(&wait, 1, 100);
    if (auto event = client.poll()) return event;
  }
  return std::nullopt;
}

TEST(AgentLabClient, HelloEventsRecordsAndOrderlyEnd) {
  std::vector<v1::FromAgent> heard;
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    heard.push_back(message);
    stream.Write(TestLab::welcome());
    stream.Write(TestLab::start());
    stream.Write(TestLab::membership(3, -1));
    stream.Write(TestLab::stop());
    while (TestLab::read(stream, message)) heard.push_back(message);
    return grpc::Status::OK;
  });
  LabClient client(lab.address(), hello());
  client.send(records(1));
  client.send(v1::Records());  // an empty batch is not sent
  EXPECT_TRUE(std::holds_alternative<LabWelcome>(next_event(client).value()));
  EXPECT_TRUE(std::holds_alternative<LabStart>(next_event(client).value()));
  const LabEvent event = next_event(client).value();
  ASSERT_TRUE(std::holds_alternative<LabMembership>(event));
  EXPECT_EQ(std::get<LabMembership>(event).session, 3u);
  EXPECT_EQ(std::get<LabMembership>(event).top_rank, -1);
  EXPECT_TRUE(std::holds_alternative<LabStop>(next_event(client).value()));
  client.send(records(2));
  client.finish();
  EXPECT_FALSE(client.poll().has_value());
  lab.wait();
  ASSERT_EQ(heard.size(), 3u);
  EXPECT_EQ(heard[0].hello().name(), "h15");
  EXPECT_EQ(heard[1].records().records(0).fields(0).value(), 1);
  EXPECT_EQ(heard[2].records().records(0).fields(0).value(), 2);
}

TEST(AgentLabClient, ARefusalIsReportedWithItsText) {
  TestLab lab([](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    return grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "an agent named 'h15' is attached");
  });
  LabClient client(lab.address(), hello());
  const auto event = next_event(client);
  ASSERT_TRUE(event && std::holds_alternative<LabLost>(*event));
  EXPECT_THAT(std::get<LabLost>(*event).reason,
              AllOf(HasSubstr(lab.address()), HasSubstr("'h15' is attached")));
}

TEST(AgentLabClient, AStreamThatEndsWithoutStopIsLost) {
  TestLab lab([](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    stream.Write(TestLab::welcome());
    return grpc::Status::OK;
  });
  LabClient client(lab.address(), hello());
  EXPECT_TRUE(std::holds_alternative<LabWelcome>(next_event(client).value()));
  const auto event = next_event(client);
  ASSERT_TRUE(event && std::holds_alternative<LabLost>(*event));
  EXPECT_THAT(std::get<LabLost>(*event).reason, HasSubstr("without Stop"));
}

TEST(AgentLabClient, ALabThatReturnsGetsHelloAgainAndWhatWasReportedMeanwhile) {
  std::vector<v1::FromAgent> heard;
  std::atomic<int> streams = 0;
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    heard.push_back(message);
    if (++streams == 1) {
      stream.Write(TestLab::welcome());
      return grpc::Status(grpc::UNAVAILABLE, "it dies");
    }
    // The name is still taken when it returns, until the broken stream is noticed.
    if (streams == 2) return grpc::Status(grpc::ALREADY_EXISTS, "an agent of this name");
    stream.Write(TestLab::welcome());
    TestLab::read(stream, message);
    heard.push_back(message);
    stream.Write(TestLab::stop());
    while (TestLab::read(stream, message)) {
    }
    return grpc::Status::OK;
  });
  LabClient client(lab.address(), hello(), {}, Duration::milliseconds(60'000));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(std::holds_alternative<LabWelcome>(next_event(client).value()));
  }
  client.send(records(1));
  EXPECT_TRUE(std::holds_alternative<LabStop>(next_event(client).value()));
  client.finish();
  EXPECT_EQ(client.dropped_records(), 0u);
  lab.wait();
  ASSERT_EQ(heard.size(), 4u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(heard[i].hello().name(), "h15");
  EXPECT_EQ(heard[3].records().records(0).fields(0).value(), 1);
}

// What one stream brought, as "number:value" of each record.
std::vector<std::string> numbered(const v1::FromAgent& message) {
  std::vector<std::string> found;
  for (std::uint64_t number = message.records().sequence();
       const v1::Record& record : message.records().records()) {
    found.push_back(fmt::format("{}:{}", number++, record.fields(0).value()));
  }
  return found;
}

TEST(AgentLabClient, WhatIsNotAcknowledgedIsSentAgainWithItsNumber) {
  std::vector<v1::Hello> hellos;
  std::vector<std::vector<std::string>> heard;
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    hellos.push_back(message.hello());
    heard.emplace_back();
    stream.Write(TestLab::welcome());
    const bool dies = heard.size() == 1;
    while (heard.back().size() < 3 && stream.Read(&message)) {
      for (const std::string& one : numbered(message)) heard.back().push_back(one);
    }
    if (dies) {
      stream.Write(TestLab::acknowledge(2));  // of 0, 1 and 2: the first two
      return grpc::Status(grpc::UNAVAILABLE, "it dies");
    }
    stream.Write(TestLab::acknowledge(5));
    stream.Write(TestLab::stop());
    while (stream.Read(&message)) {
    }
    return grpc::Status::OK;
  });
  LabClient client(lab.address(), hello(), {}, Duration::milliseconds(60'000));
  v1::Records two = records(10);
  *two.add_records() = records(11).records(0);
  client.send(two);
  client.send(records(12));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(std::holds_alternative<LabWelcome>(next_event(client).value()));
  }
  client.send(records(13));
  client.send(records(14));
  EXPECT_TRUE(std::holds_alternative<LabStop>(next_event(client).value()));
  client.finish();
  EXPECT_EQ(client.dropped_records(), 0u);
  lab.wait();
  EXPECT_THAT(
      heard, ElementsAre(ElementsAre("0:10", "1:11", "2:12"), ElementsAre("2:12", "3:13", "4:14")));
  EXPECT_NE(hellos[0].instance(), 0u);
  EXPECT_EQ(hellos[0].instance(), hellos[1].instance());
  EXPECT_EQ(hellos[0].acknowledged(), 0u);
  EXPECT_EQ(hellos[1].acknowledged(), 2u);
}

TEST(AgentLabClient, ALabThatDiesAfterStopLeavesTheLastRecordsToTheNext) {
  std::vector<std::vector<std::string>> heard;
  std::mutex told;
  told.lock();
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    heard.emplace_back();
    stream.Write(TestLab::welcome());
    if (heard.size() == 1) {
      stream.Write(TestLab::stop());
      const std::lock_guard wait(told);
      return grpc::Status(grpc::UNAVAILABLE, "it dies");
    }
    while (TestLab::read(stream, message)) heard.back() = numbered(message);
    return grpc::Status::OK;
  });
  LabClient client(lab.address(), hello(), {}, Duration::milliseconds(60'000));
  EXPECT_TRUE(std::holds_alternative<LabWelcome>(next_event(client).value()));
  EXPECT_TRUE(std::holds_alternative<LabStop>(next_event(client).value()));
  client.send(records(1));
  told.unlock();
  client.finish();
  EXPECT_EQ(client.dropped_records(), 0u);
  lab.wait();
  EXPECT_THAT(heard, ElementsAre(ElementsAre(), ElementsAre("0:1")));
}

TEST(AgentLabClient, EveryProgramThatStartsIsAnotherInstance) {
  std::set<std::uint64_t> instances;
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    instances.insert(message.hello().instance());
    return grpc::Status::OK;
  });
  for (int i = 0; i < 2; ++i) {
    LabClient client(lab.address(), hello());
    EXPECT_TRUE(std::holds_alternative<LabLost>(next_event(client).value()));
  }
  lab.wait();
  EXPECT_EQ(instances.size(), 2u);
}

TEST(AgentLabClient, TheOldestRecordsAreGivenUpWhereTheyTakeTooMuch) {
  std::vector<std::string> heard;
  std::mutex blocked;
  blocked.lock();
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    {
      const std::lock_guard wait(blocked);
    }
    stream.Write(TestLab::welcome());
    while (TestLab::read(stream, message)) {
      for (const std::string& one : numbered(message)) heard.push_back(one);
      stream.Write(TestLab::stop());
    }
    return grpc::Status::OK;
  });
  LabClient client(lab.address(), hello());
  v1::Records large = records(0);
  large.mutable_records(0)->set_kind(std::string(LabClient::kMaxKeptBytes / 4, 'x'));
  for (int i = 0; i < 6; ++i) {
    large.mutable_records(0)->mutable_fields(0)->set_value(i);
    client.send(large);
  }
  EXPECT_EQ(client.dropped_records(), 3u);  // three quarters, and what is around them, are kept
  v1::Records too_large = records(6);
  too_large.mutable_records(0)->set_kind(std::string(LabClient::kMaxKeptBytes, 'x'));
  client.send(too_large);
  EXPECT_EQ(client.dropped_records(), 6u);  // the newest is kept, whatever its size
  client.send(records(7));
  EXPECT_EQ(client.dropped_records(), 7u);
  blocked.unlock();
  EXPECT_TRUE(std::holds_alternative<LabWelcome>(next_event(client).value()));
  EXPECT_TRUE(std::holds_alternative<LabStop>(next_event(client).value()));
  client.finish();
  EXPECT_EQ(client.dropped_records(), 7u);
  lab.wait();
  EXPECT_THAT(heard, ElementsAre("7:7"));  // whose number says how many are missing
}

TEST(AgentLabClient, FinishDoesNotWaitForEverForAnAcknowledgement) {
  std::vector<std::string> heard;
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    stream.Write(TestLab::welcome());
    while (stream.Read(&message)) {
      for (const std::string& one : numbered(message)) heard.push_back(one);
    }
    return grpc::Status::OK;
  });
  LabClient client(lab.address(), hello());
  client.send(records(1));
  client.finish();
  EXPECT_EQ(client.dropped_records(), 1u);
  lab.wait();
  EXPECT_THAT(heard, ElementsAre("0:1"));
}

TEST(AgentLabClient, ALabThatRefusesIsNotAskedAgain) {
  std::atomic<int> streams = 0;
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    ++streams;
    return grpc::Status(grpc::INVALID_ARGUMENT, "not an agent");
  });
  LabClient client(lab.address(), hello(), {}, Duration::milliseconds(60'000));
  EXPECT_TRUE(std::holds_alternative<LabLost>(next_event(client).value()));
  EXPECT_EQ(streams, 1);
}

// A proxy answers so while its lab is away.
TEST(AgentLabClient, PatienceEndsAlsoWhereSomebodyAnswersForALabThatIsAway) {
  std::atomic<int> streams = 0;
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    if (++streams == 1) stream.Write(TestLab::welcome());
    return grpc::Status(grpc::UNAVAILABLE, "no healthy upstream");
  });
  LabClient client(lab.address(), hello(), {}, Duration::milliseconds(1000));
  EXPECT_TRUE(std::holds_alternative<LabWelcome>(next_event(client).value()));
  const auto event = next_event(client);
  ASSERT_TRUE(event && std::holds_alternative<LabLost>(*event));
  EXPECT_THAT(std::get<LabLost>(*event).reason, HasSubstr("no healthy upstream"));
  EXPECT_LE(streams, 12);  // one every 100 ms
}

TEST(AgentLabClient, ANameThatAnotherHasIsRefusedAtOnceHoweverPatientTheAgentIs) {
  std::atomic<int> streams = 0;
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    stream.Read(&message);
    ++streams;
    return grpc::Status(grpc::ALREADY_EXISTS, "an agent of this name");
  });
  LabClient client(lab.address(), hello(), {}, Duration::milliseconds(60'000));
  EXPECT_TRUE(std::holds_alternative<LabLost>(next_event(client).value()));
  EXPECT_EQ(streams, 1);
}

TEST(AgentLabClient, FinishDoesNotWaitForALabThatIsNotThereAndCountsWhatItLeaves) {
  LabClient client("unix:/nonexistent/lab.sock", hello());
  for (int i = 0; i < 3; ++i) client.send(records(i));
  client.finish();
  EXPECT_EQ(client.dropped_records(), 3u);
}

TEST(AgentLabClient, FinishGivesUpOnALabThatDoesNotAnswer) {
  std::mutex blocked;
  blocked.lock();
  TestLab lab([&](TestLab::Stream& stream) {
    v1::FromAgent message;
    while (stream.Read(&message)) {
    }
    const std::lock_guard wait(blocked);
    return grpc::Status::OK;
  });
  LabClient client(lab.address(), hello());
  client.finish();
  blocked.unlock();
}

}  // namespace
}  // namespace tiercast::agent
