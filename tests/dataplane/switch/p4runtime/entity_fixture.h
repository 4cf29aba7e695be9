// Writes and reads P4Runtime entities of a program, in protobuf's text format.
#pragma once

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <numeric>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "dataplane/switch/p4runtime/entities/entities.h"
#include "dataplane/switch/p4runtime/entities/transaction.h"
#include "dataplane/switch/p4runtime/translate/errors.h"

namespace tiercast::vswitch {

using google::protobuf::util::MessageDifferencer;
using p4::v1::Entity;
using p4::v1::Update;

inline std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class NoOutput : public engine::Output {
 public:
  void transmit(std::uint32_t, std::span<const std::byte>, std::int64_t) override {}
  void packet_in(std::span<const std::byte>) override {}
};

template <class Message>
Message parse_text(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

class EntityFixture : public ::testing::Test {
 protected:
  // json: a file. p4info: text. The switch has ports 1 to 4.
  EntityFixture(const std::string& json, const std::string& p4info)
      : p4info_(parse_text<p4::config::v1::P4Info>(p4info)),
        info_(p4info_, engine::Program::load(read_file(json), json)),
        pipeline_(info_.program(), engine::Switch::Options(), output_) {
    for (std::uint32_t port = 1; port <= 4; ++port) EXPECT_TRUE(pipeline_.set_port(port, {}).ok());
  }

  // Replaces "$name" by the id of the object with that name.
  std::string with_ids(std::string text) const {
    const auto replace = [&](const auto& objects) {
      for (const auto& object : objects)
        text = std::regex_replace(text, std::regex("\\$" + object.preamble().name() + "\\b"),
                                  std::to_string(object.preamble().id()));
    };
    replace(p4info_.tables());
    replace(p4info_.actions());
    replace(p4info_.counters());
    replace(p4info_.registers());
    return text;
  }
  Entity entity(const std::string& text) const { return parse_text<Entity>(with_ids(text)); }
  Update update(Update::Type type, const std::string& text) const {
    Update made;
    made.set_type(type);
    *made.mutable_entity() = entity(text);
    return made;
  }

  grpc::StatusCode write(Update::Type type, const Entity& what) {
    Update update;
    update.set_type(type);
    *update.mutable_entity() = what;
    try {
      write_update(target_, update);
    } catch (const RequestError& error) {
      message_ = error.what();
      return error.code();
    }
    return grpc::OK;
  }
  grpc::StatusCode insert(const std::string& text) { return write(Update::INSERT, entity(text)); }
  grpc::StatusCode modify(const std::string& text) { return write(Update::MODIFY, entity(text)); }
  grpc::StatusCode remove(const std::string& text) { return write(Update::DELETE, entity(text)); }

  std::vector<Entity> read(const std::string& text) {
    std::vector<Entity> out;
    read_entities(target_, entity(text), [&](Entity&& found) { out.push_back(std::move(found)); });
    return out;
  }
  // In turns of so many cells.
  std::vector<Entity> read_in_turns(const std::string& text, std::uint64_t most) {
    std::vector<Entity> out;
    CellTurn turn{.most = most};
    do {
      std::size_t found = out.size();
      read_entities(target_, entity(text), turn,
                    [&](Entity&& one) { out.push_back(std::move(one)); });
      EXPECT_LE(out.size() - found, most);
    } while (turn.more);
    return out;
  }
  grpc::StatusCode read_refused(const std::string& text) {
    try {
      read(text);
    } catch (const RequestError& error) {
      return error.code();
    }
    return grpc::OK;
  }

  // Checks that Read returns what was written.
  void expect_symmetric(const std::string& text) {
    const auto found = read(text);
    ASSERT_EQ(found.size(), 1u) << text;
    EXPECT_TRUE(MessageDifferencer::Equals(found[0], entity(text)))
        << found[0].ShortDebugString() << "\n"
        << entity(text).ShortDebugString();
  }

  // The order of entries is not part of the state.
  static std::string text_of(const std::vector<Update>& updates) {
    std::multiset<std::string> lines;
    for (const Update& each : updates) lines.insert(each.ShortDebugString() + "\n");
    return std::accumulate(lines.begin(), lines.end(), std::string());
  }

  // Checks that a snapshot of this switch gives a new one the same state.
  void expect_snapshot_is_whole() {
    const auto updates = snapshot(target_);
    engine::Switch fresh(info_.program(), engine::Switch::Options(), output_);
    for (std::uint32_t port = 1; port <= 4; ++port) EXPECT_TRUE(fresh.set_port(port, {}).ok());
    Annotations annotations;
    const Target target{info_, fresh, annotations};
    replay(updates, target);
    EXPECT_EQ(text_of(snapshot(target)), text_of(updates));
  }

  // Checks that each of the updates is undone when a later one fails.
  void expect_undone(const std::vector<Update>& updates) {
    const std::string before = text_of(snapshot(target_));
    google::protobuf::RepeatedPtrField<Update> batch(updates.begin(), updates.end());
    batch.Add();  // invalid: no entity
    const auto results = write_all_or_none(target_, batch);
    ASSERT_EQ(results.size(), updates.size() + 1);
    for (std::size_t i = 0; i < updates.size(); ++i)
      EXPECT_EQ(results[i].error_code(), grpc::ABORTED) << i << results[i].error_message();
    EXPECT_EQ(results.back().error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_EQ(text_of(snapshot(target_)), before);
    batch.RemoveLast();
    for (const grpc::Status& status : write_all_or_none(target_, batch))
      EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_NE(text_of(snapshot(target_)), before);
  }

  const p4::config::v1::P4Info p4info_;
  const ProgramInfo info_;
  NoOutput output_;
  engine::Switch pipeline_;
  Annotations annotations_;
  Target target_{info_, pipeline_, annotations_};
  std::string message_;
};

}  // namespace tiercast::vswitch
