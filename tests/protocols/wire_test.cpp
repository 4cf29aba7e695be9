#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/wire/sim.h"

namespace tiercast::wire {
namespace {

using Bytes = std::vector<std::byte>;
using Json = nlohmann::json;

Bytes from_hex(const std::string& hex) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

Json vectors() {
  std::ifstream file(TEST_DATA "/wire-vectors.json");
  return Json::parse(file);
}

bool is_feedback(const Bytes& message) { return message.size() > 1 && message[1] == std::byte{2}; }

void expect_fields(const Bytes& message, const Json& fields) {
  if (!is_feedback(message)) {
    SimData data;
    ASSERT_EQ(name(parse(message, data)), "ok");
    EXPECT_EQ(data.session, fields["session"]);
    EXPECT_EQ(data.rank, fields["rank"]);
    EXPECT_EQ(data.rate_epoch, fields["rate_epoch"]);
    EXPECT_EQ(data.seq, fields["seq"]);
    EXPECT_EQ(data.tx_time_us, fields["tx_time_us"]);
    EXPECT_EQ(data.fb_req, fields["fb_req"]);
    EXPECT_EQ(data.group_rate, fields["group_rate"]);
    EXPECT_EQ(data.max_rtt_us, fields["max_rtt_us"]);
    Bytes again = message;
    std::fill(again.begin(), again.begin() + SimData::kBytes, std::byte{0xee});
    EXPECT_EQ(write(data, again), SimData::kBytes);
    EXPECT_EQ(again, message);
    return;
  }
  SimFeedback feedback;
  ASSERT_EQ(name(parse(message, feedback)), "ok");
  EXPECT_EQ(feedback.session, fields["session"]);
  EXPECT_EQ(feedback.source, fields["source"]);
  EXPECT_EQ(feedback.fb_req, fields["fb_req"]);
  EXPECT_EQ(feedback.hold_us, fields["hold_us"]);
  EXPECT_EQ(feedback.subtree_rtt_us, fields["subtree_rtt_us"]);
  ASSERT_EQ(feedback.record_count, fields["records"].size());
  for (std::size_t i = 0; i < feedback.record_count; ++i) {
    const Json& record = fields["records"][i];
    EXPECT_EQ(feedback.records[i].rank, record["rank"]);
    EXPECT_EQ(feedback.records[i].reports, record["reports"]);
    EXPECT_EQ(feedback.records[i].congested, record["congested"]);
    EXPECT_EQ(feedback.records[i].min_cum_rate, record["min_cum_rate"]);
    EXPECT_EQ(feedback.records[i].max_cum_rate, record["max_cum_rate"]);
    EXPECT_EQ(feedback.records[i].receivers, record["receivers"]);
  }
  Bytes again(message.size(), std::byte{0xee});
  EXPECT_EQ(write(feedback, again), message.size());
  EXPECT_EQ(again, message);
}

TEST(WireVectors, EveryVectorParsesToItsFieldsOrItsError) {
  const Json all = vectors();
  ASSERT_GE(all["vectors"].size(), 100u);
  for (const Json& vector : all["vectors"]) {
    SCOPED_TRACE(vector["name"].get<std::string>());
    const Bytes message = from_hex(vector["hex"]);
    if (vector.contains("fields")) {
      expect_fields(message, vector["fields"]);
      continue;
    }
    // An unknown or missing type is an error of whichever message was hoped for.
    SimData data;
    SimFeedback feedback;
    const Error error = is_feedback(message) ? parse(message, feedback) : parse(message, data);
    EXPECT_EQ(name(error), vector["error"].get<std::string>());
  }
}

TEST(WireVectors, GroupAddresses) {
  const Json all = vectors();
  for (const Json& group : all["groups"]) {
    const std::string text = group["address"];
    unsigned a, b, c, d;
    ASSERT_EQ(std::sscanf(text.c_str(), "%u.%u.%u.%u", &a, &b, &c, &d), 4);
    EXPECT_EQ(group_address(group["session"], group["rank"]), a << 24 | b << 16 | c << 8 | d)
        << text;
  }
}

TEST(Wire, WritingOutsideTheRangesWritesNothing) {
  std::array<std::byte, SimFeedback::kMaxBytes> out;
  SimData data;
  EXPECT_EQ(write(data, std::span(out).first(31)), 0u);
  data.rank = 8;
  EXPECT_EQ(write(data, out), 0u);
  SimFeedback feedback;
  feedback.record_count = 2;
  EXPECT_EQ(write(feedback, std::span(out).first(75)), 0u);
  feedback.record_count = 9;
  EXPECT_EQ(write(feedback, out), 0u);
  feedback.record_count = 1;
  feedback.session = 32768;
  EXPECT_EQ(write(feedback, out), 0u);
}

// Random bytes, and valid messages with some bytes changed and the end cut off: whatever is
// accepted is written back to the same bytes. (Run with the sanitizers, this is also the test that
// parsing reads nothing beyond.)
TEST(Wire, WhateverIsAcceptedIsCanonical) {
  std::vector<Bytes> valid;
  const Json all = vectors();
  for (const Json& vector : all["vectors"]) {
    if (vector.contains("fields")) valid.push_back(from_hex(vector["hex"]));
  }
  Rng rng(4);
  unsigned accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    Bytes message;
    if (rng.uniform() < 0.1) {
      message.resize(rng.below(300));
      for (std::byte& byte : message) byte = static_cast<std::byte>(rng.next());
    } else {
      message = valid[rng.below(valid.size())];
      for (std::uint64_t n = rng.below(4); n > 0; --n) {
        message[rng.below(message.size())] = static_cast<std::byte>(rng.next());
      }
      if (rng.uniform() < 0.2) message.resize(rng.below(message.size() + 1));
    }
    const auto heap =
        std::make_unique<std::byte[]>(message.size());  // exact, so that overreads are seen
    std::copy(message.begin(), message.end(), heap.get());
    const std::span<const std::byte> span(heap.get(), message.size());
    SimData data;
    SimFeedback feedback;
    if (parse(span, data) == Error::kOk) {
      ++accepted;
      Bytes again = message;
      ASSERT_EQ(write(data, again), SimData::kBytes);
      ASSERT_EQ(again, message);
    } else if (parse(span, feedback) == Error::kOk) {
      ++accepted;
      Bytes again(message.size());
      ASSERT_EQ(write(feedback, again), message.size());
      ASSERT_EQ(again, message);
    }
  }
  EXPECT_GT(accepted, 10'000u);
}

}  // namespace
}  // namespace tiercast::wire
