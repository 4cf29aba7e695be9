#include "dataplane/dpdk/responder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "protocols/wire/udp_frame.h"

namespace tiercast::dpdk {
namespace {

using Bytes = std::vector<std::byte>;

const OwnAddress kOwn{agent::parse_mac("02:00:00:00:00:02", ""), 0x0a000002};

Bytes bytes(std::initializer_list<unsigned> values) {
  Bytes out;
  for (const unsigned value : values) out.push_back(std::byte(value));
  return out;
}

// 10.0.0.15 at 02:..:0f asks who has 10.0.0.2.
Bytes arp_request() {
  return bytes({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2,  0, 0, 0,  0, 0x0f, 0x08, 0x06,  //
                0,    1,    0x08, 0x00, 6,    4,    0,  1,                              //
                2,    0,    0,    0,    0,    0x0f, 10, 0, 0, 15, 0, 0,    0,    0,
                0,    0,    10,   0,    0,    2});
}

TEST(DpdkResponder, AnswersArpForItsOwnAddress) {
  Bytes frame = arp_request();
  frame.resize(60);  // padded, as Ethernet does
  const auto reply = answer(kOwn, frame);
  const Bytes expected =
      bytes({2, 0, 0,    0,    0, 0x0f, 2,  0, 0, 0, 0, 2, 0x08, 0x06,  //
             0, 1, 0x08, 0x00, 6, 4,    0,  2,                          //
             2, 0, 0,    0,    0, 2,    10, 0, 0, 2, 2, 0, 0,    0,    0, 0x0f, 10, 0, 0, 15});
  EXPECT_EQ(Bytes(reply.begin(), reply.end()), expected);
}

// RFC 826: to the sender that the request names. A virtual router's frames (RFC 5798) may come from
// another address.
TEST(DpdkResponder, AnswersArpToTheAddressInTheRequest) {
  Bytes frame = arp_request();
  frame[11] = std::byte{0x77};
  const auto reply = answer(kOwn, frame);
  ASSERT_EQ(reply.size(), 42u);
  EXPECT_EQ(reply[5], std::byte{0x0f});
  EXPECT_EQ(reply[11], std::byte{2});
  EXPECT_EQ(reply[37], std::byte{0x0f});
}

TEST(DpdkResponder, IgnoresArpForOthersAndReplies) {
  Bytes other = arp_request();
  other.back() = std::byte{3};
  EXPECT_TRUE(answer(kOwn, other).empty());
  Bytes reply = arp_request();
  reply[21] = std::byte{2};
  EXPECT_TRUE(answer(kOwn, reply).empty());
}

void put_checksum(std::span<std::byte> header, std::size_t at) {
  header[at] = header[at + 1] = std::byte{0};
  const auto checksum = wire::internet_checksum(header);
  header[at] = static_cast<std::byte>(checksum >> 8);
  header[at + 1] = static_cast<std::byte>(checksum);
}

Bytes echo_request() {
  Bytes frame = bytes({2,    0,  0,  0,  0,    2,    2, 0, 0,   0,   0,   0x0f, 0x08, 0x00,  //
                       0x45, 0,  0,  33, 0,    1,    0, 0, 64,  1,   0,   0,    10,   0,
                       0,    15, 10, 0,  0,    2,  //
                       8,    0,  0,  0,  0x12, 0x34, 0, 7, 'h', 'e', 'l', 'l',  'o'});
  put_checksum(std::span(frame).subspan(14, 20), 10);
  put_checksum(std::span(frame).subspan(34), 2);
  return frame;
}

TEST(DpdkResponder, AnswersEcho) {
  Bytes frame = echo_request();
  const auto reply = answer(kOwn, frame);
  ASSERT_EQ(reply.size(), 47u);
  EXPECT_EQ(reply[5], std::byte{0x0f});
  EXPECT_EQ(reply[29], std::byte{2});   // from 10.0.0.2
  EXPECT_EQ(reply[33], std::byte{15});  // to 10.0.0.15
  EXPECT_EQ(reply[34], std::byte{0});   // echo reply
  EXPECT_EQ(reply[38], std::byte{0x12});
  EXPECT_EQ(wire::internet_checksum(reply.subspan(14, 20)), 0);
  EXPECT_EQ(wire::internet_checksum(reply.subspan(34)), 0);
}

// The last request of a `traceroute -I` comes with a TTL of 1. Its answer needs more than that.
TEST(DpdkResponder, AnEchoHasATtlOfItsOwn) {
  Bytes frame = echo_request();
  frame[22] = std::byte{1};
  put_checksum(std::span(frame).subspan(14, 20), 10);
  const auto reply = answer(kOwn, frame);
  ASSERT_EQ(reply.size(), 47u);
  EXPECT_EQ(reply[22], std::byte{64});
  EXPECT_EQ(wire::internet_checksum(reply.subspan(14, 20)), 0);
}

// RFC 1122 section 3.2.1.3.
TEST(DpdkResponder, IgnoresEchoFromAnAddressThatNoHostHas) {
  for (const unsigned first : {0u, 127u, 224u, 239u, 240u, 255u}) {
    Bytes frame = echo_request();
    frame[26] = std::byte(first);
    put_checksum(std::span(frame).subspan(14, 20), 10);
    EXPECT_TRUE(answer(kOwn, frame).empty()) << first;
  }
}

// RFC 1122 section 3.3.6.
TEST(DpdkResponder, IgnoresEchoInAFrameForMany) {
  Bytes all = echo_request();
  std::fill_n(all.begin(), 6, std::byte{0xff});
  EXPECT_TRUE(answer(kOwn, all).empty());
  Bytes group = echo_request();
  group[0] = std::byte{1};
  EXPECT_TRUE(answer(kOwn, group).empty());
}

TEST(DpdkResponder, IgnoresFragmentsOfEcho) {
  for (const unsigned flags : {0x20u, 0x01u}) {  // more fragments, an offset
    Bytes frame = echo_request();
    frame[20] = std::byte(flags);
    put_checksum(std::span(frame).subspan(14, 20), 10);
    EXPECT_TRUE(answer(kOwn, frame).empty()) << flags;
  }
}

TEST(DpdkResponder, IgnoresBrokenEcho) {
  Bytes icmp = echo_request();
  icmp[45] = std::byte{'x'};
  EXPECT_TRUE(answer(kOwn, icmp).empty());
  Bytes ip = echo_request();
  ip[22] = std::byte{1};
  EXPECT_TRUE(answer(kOwn, ip).empty());
}

TEST(DpdkResponder, NoTruncationIsAnsweredOrReadBeyond) {
  for (const Bytes& whole : {arp_request(), echo_request()}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_TRUE(answer(kOwn, cut).empty()) << size;
    }
  }
}

// 10.0.0.1 sends an IGMP query: IPv4 with the Router Alert option, as all queriers do.
Bytes igmp_frame(std::uint32_t to, std::initializer_list<unsigned> message) {
  Bytes igmp = bytes(message);
  if (igmp.size() >= 4) put_checksum(igmp, 2);
  Bytes frame(wire::kEthernetBytes);
  const auto mac = wire::multicast_mac(to);
  std::copy(mac.begin(), mac.end(), frame.begin());
  frame[12] = std::byte{8};
  Bytes ip = bytes({0x46,
                    0xc0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    1,
                    2,
                    0,
                    0,
                    10,
                    0,
                    0,
                    1,
                    to >> 24,
                    to >> 16 & 0xff,
                    to >> 8 & 0xff,
                    to & 0xff,
                    0x94,
                    4,
                    0,
                    0});
  ip[3] = static_cast<std::byte>(ip.size() + igmp.size());
  put_checksum(ip, 10);
  frame.insert(frame.end(), ip.begin(), ip.end());
  frame.insert(frame.end(), igmp.begin(), igmp.end());
  return frame;
}

constexpr std::uint32_t kAllSystems = 0xe0000001;
constexpr std::uint32_t kGroup = 0xefc00009;  // 239.192.0.9: a layer's

// A member of only 224.0.0.1 owes no report to any of them (RFC 3376 section 5).
TEST(DpdkResponder, KnowsEveryIgmpQueryAndAnswersNone) {
  const Bytes queries[] = {
      igmp_frame(kAllSystems, {0x11, 0, 0, 0, 0, 0, 0, 0}),                  // version 1
      igmp_frame(kAllSystems, {0x11, 100, 0, 0, 0, 0, 0, 0}),                // 2, general
      igmp_frame(kGroup, {0x11, 10, 0, 0, 239, 192, 0, 9}),                  // for a group
      igmp_frame(kAllSystems, {0x11, 100, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0}),  // 3, general
      igmp_frame(kGroup, {0x11, 10, 0, 0, 239, 192, 0, 9, 2, 125, 0, 0}),    // for a group
      igmp_frame(kGroup,
                 {0x11, 10, 0, 0, 239, 192, 0, 9, 2, 125, 0, 1, 10, 0, 0, 2}),  // and source
  };
  for (const Bytes& query : queries) {
    EXPECT_EQ(igmp_kind(query), Igmp::kQuery);
    Bytes padded = query;
    padded.resize(std::max<std::size_t>(60, query.size()));
    EXPECT_EQ(igmp_kind(padded), Igmp::kQuery);
    EXPECT_TRUE(answer(kOwn, padded).empty());
  }
}

TEST(DpdkResponder, TellsBrokenQueriesAndOthersReportsFromQueries) {
  const auto kind = [](std::initializer_list<unsigned> message) {
    return igmp_kind(igmp_frame(kAllSystems, message));
  };
  EXPECT_EQ(kind({0x16, 0, 0, 0, 239, 192, 0, 9}), Igmp::kOther);  // a report of version 2
  EXPECT_EQ(kind({0x22, 0, 0, 0, 0, 0, 0, 0}), Igmp::kOther);      // of version 3, empty
  EXPECT_EQ(kind({}), Igmp::kMalformed);
  EXPECT_EQ(kind({0x11, 100, 0, 0, 0, 0, 0}), Igmp::kMalformed);
  // A length between those of versions 2 and 3, and fewer sources than the message says.
  EXPECT_EQ(kind({0x11, 100, 0, 0, 0, 0, 0, 0, 2, 125}), Igmp::kMalformed);
  EXPECT_EQ(kind({0x11, 10, 0, 0, 239, 192, 0, 9, 2, 125, 0, 2, 10, 0, 0, 2}), Igmp::kMalformed);
  EXPECT_EQ(kind({0x11, 10, 0, 0, 239, 192, 0, 9, 2, 125, 255, 255}), Igmp::kMalformed);
  Bytes flipped = igmp_frame(kAllSystems, {0x11, 100, 0, 0, 0, 0, 0, 0});
  flipped.back() ^= std::byte{1};
  EXPECT_EQ(igmp_kind(flipped), Igmp::kMalformed);
  EXPECT_EQ(igmp_kind(echo_request()), Igmp::kNone);
}

}  // namespace
}  // namespace tiercast::dpdk
