// Messages by the texts of RFC 3376 and RFC 2236. What the kernel and Scapy make of them:
// test_recv.py.
#include "dataplane/receiver/igmp/igmp_host.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "protocols/wire/bytes.h"
#include "protocols/wire/udp_frame.h"

namespace tiercast::receiver {
namespace {

const dpdk::OwnAddress kOwn{agent::parse_mac("02:00:00:00:00:02", ""), 0x0a000002};
constexpr std::uint32_t kGroup = 0xEFC00008, kSource = 0x0a000063;
constexpr std::int64_t kMs = 1'000'000;

Time at_ms(std::int64_t ms) { return Time::nanoseconds(ms * kMs); }

struct Message {
  Time time;
  std::uint32_t destination = 0;
  std::vector<std::byte> igmp;
};

// All that is sent until `end`.
std::vector<Message> run(IgmpHost& host, Time start, Time end) {
  std::vector<Message> sent;
  Time now = start;
  while (now <= end) {
    for (auto frame = host.next_frame(now); !frame.empty(); frame = host.next_frame(now)) {
      const auto ip = frame.subspan(14);
      EXPECT_GE(frame.size(), 60u);
      EXPECT_EQ(wire::get8(ip, 0), 0x46);
      EXPECT_EQ(wire::get8(ip, 8), 1);
      EXPECT_EQ(wire::get32(ip, 20), 0x94040000u);
      EXPECT_EQ(wire::internet_checksum(ip.first(24)), 0);
      const std::uint32_t destination = wire::get32(ip, 16);
      const auto mac = wire::multicast_mac(destination);
      EXPECT_TRUE(std::equal(mac.begin(), mac.end(), frame.begin()));
      const auto igmp = ip.first(wire::get16(ip, 2)).subspan(24);
      EXPECT_EQ(wire::internet_checksum(igmp), 0);
      sent.push_back({now, destination, {igmp.begin(), igmp.end()}});
    }
    if (host.next_deadline().is_never() && now >= host.next_deadline()) break;
    now = std::max(host.next_deadline(), now + Duration::nanoseconds(1));
  }
  return sent;
}

std::vector<std::byte> query(std::vector<std::byte> igmp, std::uint32_t group) {
  std::vector<std::byte> frame(14 + 24 + igmp.size());
  const std::span<std::byte> ip = std::span(frame).subspan(14);
  ip[0] = std::byte{0x46};
  wire::put16(ip, 2, static_cast<std::uint16_t>(24 + igmp.size()));
  wire::put32(igmp, 4, group);
  wire::put16(igmp, 2, wire::internet_checksum(igmp));
  std::copy(igmp.begin(), igmp.end(), ip.begin() + 24);
  return frame;
}

std::vector<std::byte> query_v2(std::uint8_t code, std::uint32_t group = 0) {
  std::vector<std::byte> igmp(8);
  igmp[0] = std::byte{0x11};
  igmp[1] = std::byte(code);
  return query(igmp, group);
}

std::vector<std::byte> query_v3(std::uint8_t code, std::uint32_t group = 0,
                                const std::vector<std::uint32_t>& sources = {}) {
  std::vector<std::byte> igmp(12 + 4 * sources.size());
  igmp[0] = std::byte{0x11};
  igmp[1] = std::byte(code);
  wire::put16(igmp, 10, static_cast<std::uint16_t>(sources.size()));
  for (std::size_t i = 0; i < sources.size(); ++i) wire::put32(igmp, 12 + 4 * i, sources[i]);
  return query(igmp, group);
}

struct Record {
  unsigned type = 0;
  std::uint32_t group = 0;
  std::vector<std::uint32_t> sources;
  bool operator==(const Record&) const = default;
};

std::vector<Record> records(const Message& message) {
  EXPECT_EQ(message.destination, 0xE0000016u);
  EXPECT_EQ(wire::get8(message.igmp, 0), 0x22);
  std::vector<Record> found;
  std::size_t at = 8;
  for (unsigned i = 0; i < wire::get16(message.igmp, 6); ++i) {
    Record& record = found.emplace_back();
    record.type = wire::get8(message.igmp, at);
    record.group = wire::get32(message.igmp, at + 4);
    for (unsigned s = 0; s < wire::get16(message.igmp, at + 2); ++s) {
      record.sources.push_back(wire::get32(message.igmp, at + 8 + 4 * s));
    }
    at += 8 + 4 * record.sources.size();
  }
  EXPECT_EQ(at, message.igmp.size());
  return found;
}

TEST(IgmpHost, JoinsAndLeavesOneSourceInVersion3) {
  IgmpHost host(kOwn, 3, 10, 1);
  host.join(at_ms(0), kGroup, kSource);
  const auto joins = run(host, at_ms(0), at_ms(5000));
  // Told twice, the second time within a second (RFC 3376 section 5.1).
  ASSERT_EQ(joins.size(), 2u);
  EXPECT_EQ(joins[0].time, at_ms(0));
  EXPECT_LE(joins[1].time, at_ms(1000));
  for (const auto& join : joins) {
    EXPECT_EQ(records(join), (std::vector<Record>{{5, kGroup, {kSource}}}));  // ALLOW_NEW_SOURCES
  }
  host.leave(at_ms(6000), kGroup, kSource);
  const auto leaves = run(host, at_ms(6000), at_ms(9000));
  ASSERT_EQ(leaves.size(), 2u);
  EXPECT_EQ(records(leaves[0]), (std::vector<Record>{{6, kGroup, {kSource}}}));  // BLOCK_OLD
  host.query(at_ms(9000), query_v3(100));
  EXPECT_TRUE(run(host, at_ms(9000), at_ms(20'000)).empty());
}

TEST(IgmpHost, JoinsAnySourceInVersion3) {
  IgmpHost host(kOwn, 3, 10, 1);
  host.join(at_ms(0), kGroup, 0);
  EXPECT_EQ(records(run(host, at_ms(0), at_ms(2000)).at(0)),
            (std::vector<Record>{{4, kGroup, {}}}));  // CHANGE_TO_EXCLUDE_MODE {}
  host.query(at_ms(3000), query_v3(10));
  EXPECT_EQ(records(run(host, at_ms(3000), at_ms(4000)).at(0)),
            (std::vector<Record>{{2, kGroup, {}}}));  // MODE_IS_EXCLUDE {}
  host.leave(at_ms(5000), kGroup, 0);
  EXPECT_EQ(records(run(host, at_ms(5000), at_ms(7000)).at(0)),
            (std::vector<Record>{{3, kGroup, {}}}));  // CHANGE_TO_INCLUDE_MODE {}
}

TEST(IgmpHost, AnswersAGeneralQueryOfVersion3OnceWithinItsTime) {
  IgmpHost host(kOwn, 3, 500, 3);
  for (std::uint32_t i = 0; i < 500; ++i) host.join(at_ms(0), kGroup + i, kSource);
  run(host, at_ms(0), at_ms(2000));
  host.query(at_ms(10'000), query_v3(20));  // 2 s
  host.query(at_ms(10'000), query_v3(20));
  const auto answers = run(host, at_ms(10'000), at_ms(20'000));
  std::set<std::uint32_t> groups;
  for (const auto& answer : answers) {
    EXPECT_LE(answer.time, at_ms(12'000));
    for (const Record& record : records(answer)) {
      EXPECT_EQ(record.type, 1u);  // MODE_IS_INCLUDE
      EXPECT_EQ(record.sources, std::vector<std::uint32_t>{kSource});
      EXPECT_TRUE(groups.insert(record.group).second);
    }
    EXPECT_LE(answer.igmp.size() + 24, 1500u);
  }
  EXPECT_EQ(groups.size(), 500u);
  EXPECT_EQ(answers.size(), 5u);  // 120 records in each
}

TEST(IgmpHost, AnswersOnlyTheGroupAndSourceThatAreAsked) {
  IgmpHost host(kOwn, 3, 10, 1);
  host.join(at_ms(0), kGroup, kSource);
  host.join(at_ms(0), kGroup + 1, kSource);
  run(host, at_ms(0), at_ms(2000));
  host.query(at_ms(3000), query_v3(10, kGroup));
  EXPECT_EQ(records(run(host, at_ms(3000), at_ms(4000)).at(0)),
            (std::vector<Record>{{1, kGroup, {kSource}}}));
  host.query(at_ms(5000), query_v3(10, kGroup, {kSource + 1}));
  EXPECT_TRUE(run(host, at_ms(5000), at_ms(6000)).empty());
  host.query(at_ms(7000), query_v3(10, kGroup, {1, kSource}));
  EXPECT_EQ(run(host, at_ms(7000), at_ms(8000)).size(), 1u);
}

TEST(IgmpHost, FollowsAQuerierOfVersion2ForItsTime) {
  IgmpHost host(kOwn, 3, 10, 5);
  host.join(at_ms(0), kGroup, kSource);
  host.join(at_ms(0), kGroup + 1, kSource);
  run(host, at_ms(0), at_ms(2000));
  host.query(at_ms(3000), query_v2(50));
  const auto answers = run(host, at_ms(3000), at_ms(9000));
  ASSERT_EQ(answers.size(), 2u);  // a report for each group, at its own time
  for (const auto& answer : answers) {
    EXPECT_EQ(wire::get8(answer.igmp, 0), 0x16);
    EXPECT_EQ(wire::get32(answer.igmp, 4), answer.destination);
    EXPECT_LE(answer.time, at_ms(8000));
  }
  host.leave(at_ms(10'000), kGroup, kSource);
  const auto leaves = run(host, at_ms(10'000), at_ms(12'000));
  ASSERT_EQ(leaves.size(), 1u);
  EXPECT_EQ(wire::get8(leaves[0].igmp, 0), 0x17);
  EXPECT_EQ(leaves[0].destination, 0xE0000002u);  // all routers
  EXPECT_EQ(wire::get32(leaves[0].igmp, 4), kGroup);
  EXPECT_EQ(host.version(at_ms(262'000)), 2);
  EXPECT_EQ(host.version(at_ms(264'000)), 3);
}

// RFC 2236 section 3: a host leaves a group when the last of its memberships ends.
TEST(IgmpHost, LeavesAGroupOfVersion2WithItsLastSource) {
  IgmpHost host(kOwn, 2, 10, 5);
  host.join(at_ms(0), kGroup, kSource);
  host.join(at_ms(0), kGroup, kSource + 1);
  run(host, at_ms(0), at_ms(2000));
  host.leave(at_ms(3000), kGroup, kSource);
  EXPECT_TRUE(run(host, at_ms(3000), at_ms(5000)).empty());
  host.query(at_ms(5000), query_v2(10));
  EXPECT_EQ(run(host, at_ms(5000), at_ms(7000)).size(), 1u);  // for the other one
  host.leave(at_ms(8000), kGroup, kSource + 1);
  const auto leaves = run(host, at_ms(8000), at_ms(10'000));
  ASSERT_EQ(leaves.size(), 1u);
  EXPECT_EQ(wire::get8(leaves[0].igmp, 0), 0x17);
  EXPECT_EQ(wire::get32(leaves[0].igmp, 4), kGroup);
  EXPECT_TRUE(host.next_deadline().is_never());
}

// RFC 3376 sections 3.2 and 5.1: EXCLUDE {} stays what it is, so nothing is told. A
// BLOCK_OLD_SOURCES would stop a source that is received.
TEST(IgmpHost, BlocksNoSourceOfAGroupThatItReceivesFromAny) {
  IgmpHost host(kOwn, 3, 10, 5);
  host.join(at_ms(0), kGroup, 0);
  host.join(at_ms(0), kGroup, kSource);
  run(host, at_ms(0), at_ms(2000));
  host.leave(at_ms(3000), kGroup, kSource);
  EXPECT_TRUE(run(host, at_ms(3000), at_ms(5000)).empty());
  host.leave(at_ms(6000), kGroup, 0);
  EXPECT_EQ(records(run(host, at_ms(6000), at_ms(8000)).at(0)),
            (std::vector<Record>{{3, kGroup, {}}}));  // CHANGE_TO_INCLUDE_MODE {}
  // Two sources without any: the one that is left is told, the other stays.
  host.join(at_ms(10'000), kGroup, kSource);
  host.join(at_ms(10'000), kGroup, kSource + 1);
  run(host, at_ms(10'000), at_ms(12'000));
  host.leave(at_ms(13'000), kGroup, kSource);
  EXPECT_EQ(records(run(host, at_ms(13'000), at_ms(15'000)).at(0)),
            (std::vector<Record>{{6, kGroup, {kSource}}}));
}

TEST(IgmpHost, KeepsQuietWhereAnotherHasReportedInVersion2) {
  IgmpHost host(kOwn, 2, 10, 5);
  host.join(at_ms(0), kGroup, 0);
  const auto joins = run(host, at_ms(0), at_ms(2000));
  ASSERT_EQ(joins.size(), 2u);
  EXPECT_EQ(joins[0].destination, kGroup);
  host.query(at_ms(3000), query_v2(100));
  std::vector<std::byte> igmp(8);
  igmp[0] = std::byte{0x16};
  host.report(query(igmp, kGroup));
  EXPECT_TRUE(run(host, at_ms(3000), at_ms(20'000)).empty());
}

TEST(IgmpHost, ALongMaximalResponseTimeIsAFloat) {
  // RFC 3376 section 4.1.1: 0x9F: mantissa 15, exponent 1: 31 << 4 = 496 tenths of a second.
  IgmpHost host(kOwn, 3, 1, 2);
  host.join(at_ms(0), kGroup, kSource);
  run(host, at_ms(0), at_ms(2000));
  Time latest = Time::zero();
  for (std::int64_t i = 1; i <= 200; ++i) {
    const Time asked = at_ms(i * 100'000);
    host.query(asked, query_v3(0x9F));
    const auto answers = run(host, asked, asked + Duration::milliseconds(60'000));
    ASSERT_EQ(answers.size(), 1u);
    latest = std::max(latest, Time::zero() + (answers[0].time - asked));
  }
  EXPECT_LE(latest, at_ms(49'600));
  EXPECT_GE(latest, at_ms(45'000));
}

TEST(IgmpHost, RefusesMoreThanItHasRoomForAndReusesWhatWasLeft) {
  IgmpHost host(kOwn, 3, 1, 2);
  EXPECT_TRUE(host.join(at_ms(0), kGroup, 0));
  EXPECT_TRUE(host.join(at_ms(0), kGroup, 0));
  EXPECT_FALSE(host.join(at_ms(0), kGroup + 1, 0));
  host.leave_all(at_ms(0));
  run(host, at_ms(0), at_ms(3000));
  EXPECT_TRUE(host.join(at_ms(4000), kGroup + 1, 0));
}

}  // namespace
}  // namespace tiercast::receiver
