#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "protocols/base/rng.h"
#include "protocols/schemes/ermcc/messages.h"
#include "protocols/schemes/mdpcc/messages.h"
#include "protocols/schemes/mlda/messages.h"
#include "protocols/schemes/pgmcc/messages.h"
#include "protocols/schemes/plm/messages.h"
#include "protocols/schemes/rla/messages.h"
#include "protocols/schemes/rlc/messages.h"
#include "protocols/schemes/rlm/messages.h"
#include "protocols/schemes/sim/messages.h"
#include "protocols/schemes/tfmcc/messages.h"
#include "protocols/wire/bytes.h"

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

Json read(const std::string& path) {
  std::ifstream file(TEST_DATA "/" + path);
  EXPECT_TRUE(file) << path;
  return Json::parse(file);
}

// The fields of every message by their names in the vectors; records are an array.
Json fields(const SimData& m) {
  return {{"rank", m.rank},
          {"rate_epoch", m.rate_epoch},
          {"seq", m.seq},
          {"tx_time_us", m.tx_time_us},
          {"fb_req", m.fb_req},
          {"group_rate", m.group_rate},
          {"max_rtt_us", m.max_rtt_us}};
}
Json fields(const SimFeedback& m) {
  return {{"source", m.source},
          {"fb_req", m.fb_req},
          {"hold_us", m.hold_us},
          {"subtree_rtt_us", m.subtree_rtt_us},
          {"record_count", m.record_count}};
}
Json record(const SimFeedback& m, std::size_t i) {
  const SimRecord& r = m.records[i];
  return {{"rank", r.rank},
          {"reports", r.reports},
          {"congested", r.congested},
          {"min_cum_rate", r.min_cum_rate},
          {"max_cum_rate", r.max_cum_rate},
          {"receivers", r.receivers}};
}
Json fields(const ErmccData& m) {
  return {{"cr_valid", m.cr_valid ? 1 : 0},
          {"seq", m.seq},
          {"cr", m.cr},
          {"mu_hat", m.mu_hat},
          {"sigma_hat", m.sigma_hat},
          {"ask_from", m.ask_from},
          {"ask_share", m.ask_share}};
}
Json fields(const ErmccFeedback& m) {
  return {{"kind", static_cast<unsigned>(m.kind)},
          {"source", m.source},
          {"seq", m.seq},
          {"omega", m.omega},
          {"mu", m.mu},
          {"sigma", m.sigma}};
}
Json fields(const RlaData& m) {
  return {{"flags", m.flags},
          {"payload_length", m.payload_length},
          {"seq", m.seq},
          {"tx_time_us", m.tx_time_us},
          {"base", m.base},
          {"offset_high", m.offset >> 32},
          {"offset_low", m.offset & 0xffffffff}};
}
Json fields(const RlaAck& m) {
  return {{"flags", m.flags},   {"record_count", m.record_count}, {"rwnd", m.rwnd},
          {"source", m.source}, {"cum_ack", m.cum_ack},           {"echo_time_us", m.echo_time_us}};
}
Json record(const RlaAck& m, std::size_t i) {
  return {{"sack_start", m.sacks[i].start}, {"sack_end", m.sacks[i].end}};
}
Json fields(const MldaData& m) {
  return {{"rank", m.rank}, {"pair", m.pair}, {"seq", m.seq}, {"tx_time_us", m.tx_time_us}};
}
Json fields(const MldaSenderReport& m) {
  return {{"kind", MldaSenderReport::kKind},
          {"record_count", m.record_count},
          {"sr_seq", m.sr_seq},
          {"tx_time_us", m.tx_time_us},
          {"max_rtt_us", m.max_rtt_us}};
}
Json record(const MldaSenderReport& m, std::size_t i) { return {{"rate", m.rate[i]}}; }
Json fields(const MldaReceiverReport& m) {
  return {{"rank", m.rank},     {"asks_rtt", m.asks_rtt ? 1 : 0},
          {"source", m.source}, {"sr_seq", m.sr_seq},
          {"rate", m.rate},     {"loss", m.loss},
          {"rtt_us", m.rtt_us}, {"rx_time_us", m.rx_time_us}};
}
Json fields(const MldaReflection& m) {
  return {{"kind", MldaReflection::kKind},
          {"rank", m.rank},
          {"asks_rtt", m.asks_rtt ? 1 : 0},
          {"source", m.source},
          {"sr_seq", m.sr_seq},
          {"rate", m.rate},
          {"rx_time_us", m.rx_time_us},
          {"tx_time_us", m.tx_time_us}};
}
Json fields(const MdpccData& m) {
  return {{"object_id", m.object_id},
          {"segment_size", m.segment_size},
          {"seq", m.seq},
          {"segment", m.segment},
          {"segment_count", m.segment_count},
          {"payload_length", m.payload_length}};
}
Json fields(const MdpccProbe& m) {
  return {{"kind", MdpccProbe::kKind},
          {"record_count", m.record_count},
          {"probe_seq", m.probe_seq},
          {"tx_time_us", m.tx_time_us},
          {"grtt_us", m.grtt_us},
          {"tx_rate", m.tx_rate},
          {"group_size", m.group_size},
          {"backoff", m.backoff},
          {"object_id", m.object_id},
          {"segment_size", m.segment_size},
          {"segment_count", m.segment_count},
          {"next_segment", m.next_segment}};
}
Json record(const MdpccProbe& m, std::size_t i) {
  const MdpccRepresentative& r = m.representatives[i];
  return {{"receiver", r.receiver}, {"rtt_us", r.rtt_us}, {"rate", r.rate}, {"flags", r.flags}};
}
Json fields(const MdpccReport& m) {
  return {{"kind", m.reflected ? MdpccReport::kControlKind : MdpccReport::kFeedbackKind},
          {"flags", m.flags},
          {"probe_seq", m.probe_seq},
          {"source", m.source},
          {"response_us", m.response_us},
          {"loss", m.loss},
          {"rate", m.rate},
          {"received_rate", m.received_rate},
          {"rtt_us", m.rtt_us}};
}
Json fields(const MdpccNack& m) {
  return {{"kind", m.reflected ? MdpccNack::kControlKind : MdpccNack::kFeedbackKind},
          {"record_count", m.record_count},
          {"object_id", m.object_id},
          {"source", m.source}};
}
Json record(const MdpccNack& m, std::size_t i) {
  return {{"first", m.segments[i].first}, {"count", m.segments[i].count}};
}

Json fields(const TfmccData& m) {
  return {{"echo_valid", m.echo_valid ? 1 : 0},
          {"is_clr", m.is_clr ? 1 : 0},
          {"seq", m.seq},
          {"tx_time_us", m.tx_time_us},
          {"fb_round", m.fb_round},
          {"supp_rate", m.supp_rate},
          {"max_rtt_us", m.max_rtt_us},
          {"echo_source", m.echo_source},
          {"echo_time_us", m.echo_time_us}};
}
Json fields(const TfmccFeedback& m) {
  return {{"have_rtt", m.have_rtt ? 1 : 0}, {"have_loss", m.have_loss ? 1 : 0},
          {"leave", m.leave ? 1 : 0},       {"source", m.source},
          {"fb_round", m.fb_round},         {"rate", m.rate},
          {"time_us", m.time_us},           {"echo_time_us", m.echo_time_us}};
}
Json fields(const PgmccData& m) {
  return {{"has_acker", m.has_acker ? 1 : 0},
          {"seq", m.seq},
          {"tx_time_us", m.tx_time_us},
          {"acker", m.acker}};
}
Json fields(const PgmccFeedback& m) {
  return {{"kind", static_cast<unsigned>(m.kind)},
          {"source", m.source},
          {"rx_max", m.rx_max},
          {"bitmap", m.bitmap},
          {"echo_time_us", m.echo_time_us},
          {"hold_us", m.hold_us},
          {"loss", m.loss},
          {"missing", m.missing}};
}
Json fields(const PgmccConfirmation& m) {
  return {{"kind", PgmccConfirmation::kKind}, {"source", m.source}, {"missing", m.missing}};
}
Json fields(const RlmData& m) { return {{"rank", m.rank}, {"seq", m.seq}}; }
// The parser of an announcement needs the direction.
template <Type type>
struct Announcement : RlmAnnouncement {};
template <Type type>
Error parse(std::span<const std::byte> message, Announcement<type>& out) {
  return parse(message, type, static_cast<RlmAnnouncement&>(out));
}
Json fields(const PlmData& m) { return {{"rank", m.rank}, {"pair", m.pair}, {"seq", m.seq}}; }
Json fields(const RlcData& m) {
  return {{"rank", m.rank}, {"sync_point", m.sync_point ? 1 : 0}, {"seq", m.seq}};
}
Json fields(const RlmAnnouncement& m) { return {{"rank", m.rank}, {"source", m.source}}; }

// Parses a message. If that succeeds, `parts` gets what was read, and the message is written again
// over `again`, a copy of it.
template <class Message>
Error read_as(std::span<const std::byte> message, Json& parts, Bytes& again) {
  Message m;
  const Error error = parse(message, m);
  if (error != Error::kOk) return error;
  parts = {{"session", m.session}, {"fields", fields(m)}};
  if constexpr (requires { record(m, 0); }) {
    parts["records"] = Json::array();
    for (std::size_t i = 0; i < m.record_count; ++i) parts["records"].push_back(record(m, i));
  }
  const std::size_t written = write(m, again);
  EXPECT_EQ(written, get16(message, 4));
  return error;
}

using Reader = Error (*)(std::span<const std::byte>, Json&, Bytes&);

const std::map<std::string, Reader> kReaders = {
    {"SimData", read_as<SimData>},
    {"SimFeedback", read_as<SimFeedback>},
    {"ErmccData", read_as<ErmccData>},
    {"ErmccFeedback", read_as<ErmccFeedback>},
    {"RlaData", read_as<RlaData>},
    {"RlaAck", read_as<RlaAck>},
    {"MldaData", read_as<MldaData>},
    {"MldaSenderReport", read_as<MldaSenderReport>},
    {"MldaReceiverReport", read_as<MldaReceiverReport>},
    {"MldaReflection", read_as<MldaReflection>},
    {"MdpccData", read_as<MdpccData>},
    {"MdpccProbe", read_as<MdpccProbe>},
    {"MdpccReport", read_as<MdpccReport>},
    {"MdpccReportReflection", read_as<MdpccReport>},
    {"MdpccNack", read_as<MdpccNack>},
    {"MdpccNackReflection", read_as<MdpccNack>},
    {"TfmccData", read_as<TfmccData>},
    {"TfmccFeedback", read_as<TfmccFeedback>},
    {"PgmccData", read_as<PgmccData>},
    {"PgmccFeedback", read_as<PgmccFeedback>},
    {"PgmccConfirmation", read_as<PgmccConfirmation>},
    {"RlmData", read_as<RlmData>},
    {"RlmAnnouncement", read_as<Announcement<Type::kFeedback>>},
    {"PlmData", read_as<PlmData>},
    {"RlcData", read_as<RlcData>},
    {"RlmAnnouncementReflection", read_as<Announcement<Type::kControl>>},
};

// SIM's vectors have all fields in one object and do not name their message. An unknown or missing
// type is an error for either message.
std::vector<Json> vectors() {
  std::vector<Json> all;
  const Json sim = read("wire-vectors.json");
  for (Json vector : sim["vectors"]) {
    const std::string hex = vector["hex"];
    vector["message"] = hex.size() > 3 && hex.substr(2, 2) == "02" ? "SimFeedback" : "SimData";
    if (vector.contains("fields")) {
      Json flat = vector["fields"];
      vector["common"] = {{"session", flat["session"]}};
      if (flat.contains("records")) vector["records"] = flat["records"];
      for (const char* other : {"version", "type", "scheme", "flags", "header_length", "session",
                                "payload", "records"}) {
        flat.erase(other);
      }
      vector["fields"] = flat;
    }
    all.push_back(vector);
  }
  for (const auto& entry : std::filesystem::directory_iterator(TEST_DATA "/wire")) {
    const Json file = read("wire/" + entry.path().filename().string());
    for (const Json& vector : file["vectors"]) all.push_back(vector);
  }
  return all;
}

TEST(WireVectors, EveryVectorParsesToItsFieldsOrItsError) {
  std::map<std::string, std::pair<unsigned, unsigned>> seen;  // by message: number of valid and of
                                                              // invalid vectors
  for (const Json& vector : vectors()) {
    SCOPED_TRACE(vector["name"].get<std::string>());
    const std::string layer = vector["message"];
    const Bytes message = from_hex(vector["hex"]);
    Json parts;
    // Writing the headers again must give the bytes that were read.
    Bytes again = message;
    const std::size_t header = message.size() < 6 ? 0 : get16(message, 4);
    std::fill_n(again.begin(), std::min(header, again.size()), std::byte{0xee});
    ASSERT_TRUE(kReaders.contains(layer)) << layer;
    const Error error = kReaders.at(layer)(message, parts, again);
    if (vector.contains("error")) {
      EXPECT_EQ(name(error), vector["error"].get<std::string>());
      ++seen[layer].second;
      continue;
    }
    ASSERT_EQ(name(error), "ok");
    EXPECT_EQ(again, message);
    EXPECT_EQ(parts["session"], vector["common"]["session"]);
    EXPECT_EQ(parts["fields"], vector["fields"]);
    EXPECT_EQ(parts.contains("records"), vector.contains("records"));
    if (vector.contains("records")) {
      EXPECT_EQ(parts["records"], vector["records"]);
    }
    ++seen[layer].first;
  }
  for (const auto& [layer, reader] : kReaders) {
    EXPECT_GE(seen[layer].first, 2u) << layer;
    EXPECT_GE(seen[layer].second, 30u) << layer;
  }
}

TEST(WireVectors, GroupAddresses) {
  const Json all = read("wire-vectors.json");
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

// Random bytes, and valid messages with changed bytes or a truncated end: whatever is accepted is
// written back to the same bytes. (With the sanitizers, this also tests that parsing reads nothing
// beyond the message.)
TEST(Wire, WhateverIsAcceptedIsCanonical) {
  std::vector<std::pair<Reader, Bytes>> valid;
  for (const Json& vector : vectors()) {
    if (!vector.contains("fields")) continue;
    valid.emplace_back(kReaders.at(vector["message"]), from_hex(vector["hex"]));
  }
  Rng rng(4);
  unsigned accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    auto [reader, message] = valid[rng.below(valid.size())];
    if (rng.uniform() < 0.1) {
      message.resize(rng.below(300));
      for (std::byte& byte : message) byte = static_cast<std::byte>(rng.next());
    } else {
      for (std::uint64_t n = rng.below(4); n > 0; --n) {
        message[rng.below(message.size())] = static_cast<std::byte>(rng.next());
      }
      if (rng.uniform() < 0.2) message.resize(rng.below(message.size() + 1));
    }
    const auto heap =
        std::make_unique<std::byte[]>(message.size());  // exact size, so that overreads are noticed
    std::copy(message.begin(), message.end(), heap.get());
    Json parts;
    Bytes again = message;
    if (reader({heap.get(), message.size()}, parts, again) != Error::kOk) continue;
    ++accepted;
    ASSERT_EQ(again, message);
  }
  EXPECT_GT(accepted, 10'000u);
}

}  // namespace
}  // namespace tiercast::wire
