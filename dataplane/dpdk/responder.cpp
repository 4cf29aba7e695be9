#include "dataplane/dpdk/responder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "protocols/wire/bytes.h"
#include "protocols/wire/udp_frame.h"

namespace tiercast::dpdk {
namespace {

constexpr std::size_t kEchoHeaderBytes = 8;
constexpr std::byte kProtocolIcmp{1};
constexpr std::byte kProtocolIgmp{2};
constexpr std::byte kIgmpQuery{0x11};
constexpr std::size_t kIgmpBytes = 8;     // versions 1 and 2
constexpr std::size_t kIgmpV3Bytes = 12;  // plus 4 for each source
constexpr std::byte kEchoRequest{8};
constexpr std::byte kEchoReply{0};
// What is left of a request's TTL says nothing about the way back (RFC 1122 section 3.2.1.7).
constexpr std::byte kTtl{64};

std::array<std::byte, 4> network_order(std::uint32_t ip) {
  return {static_cast<std::byte>(ip >> 24), static_cast<std::byte>(ip >> 16),
          static_cast<std::byte>(ip >> 8), static_cast<std::byte>(ip)};
}

bool starts_with(std::span<const std::byte> bytes, std::initializer_list<unsigned> prefix) {
  return bytes.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), bytes.begin(),
                    [](unsigned a, std::byte b) { return std::byte(a) == b; });
}

bool holds(std::span<const std::byte> bytes, std::span<const std::byte> expected) {
  return std::equal(expected.begin(), expected.end(), bytes.begin());
}

void put(std::span<std::byte> out, std::span<const std::byte> bytes) {
  std::copy(bytes.begin(), bytes.end(), out.begin());
}

void put_checksum(std::span<std::byte> bytes, std::size_t at) {
  wire::put16(bytes, at, 0);
  wire::put16(bytes, at, wire::internet_checksum(bytes));
}

// Whether a host can have this address: not "this network", loopback, a group, class E or
// broadcast. A packet from another one is discarded (RFC 1122 section 3.2.1.3).
bool is_host(std::uint32_t ip) {
  const std::uint32_t network = ip >> 24;
  return network != 0 && network != 127 && network < 224;
}

std::span<std::byte> answer_arp(const OwnAddress& own, std::span<std::byte> frame) {
  if (frame.size() < wire::kEthernetBytes + kArpBytes) return {};
  const auto arp = frame.subspan(wire::kEthernetBytes);
  // Ethernet, IPv4, lengths 6 and 4, request.
  if (!starts_with(arp, {0, 1, 8, 0, 6, 4, 0, 1})) return {};
  const auto own_ip = network_order(own.ip);
  if (!holds(arp.subspan(24), own_ip)) return {};
  // To the sender that the request names (RFC 826), which need not be who sent the frame: a
  // virtual router asks from an address of its own.
  std::copy_n(arp.begin() + 8, 6, frame.begin());
  put(frame.subspan(6), own.mac);
  arp[7] = std::byte{2};                               // reply
  std::copy_n(arp.begin() + 8, 10, arp.begin() + 18);  // the sender of the request becomes the
                                                       // target
  put(arp.subspan(8), own.mac);
  put(arp.subspan(14), own_ip);
  return frame.first(wire::kEthernetBytes + kArpBytes);
}

std::span<std::byte> answer_echo(const OwnAddress& own, std::span<std::byte> frame) {
  const auto ip = frame.subspan(wire::kEthernetBytes);
  if (ip.size() < wire::kIpv4Bytes + kEchoHeaderBytes || ip[0] != std::byte{0x45} ||
      ip[9] != kProtocolIcmp || wire::internet_checksum(ip.first(wire::kIpv4Bytes)) != 0) {
    return {};
  }
  const std::size_t length = wire::get16(ip, 2);
  // A frame for all must not be answered by all (RFC 1122 section 3.3.6).
  const bool to_many = (frame[0] & std::byte{1}) != std::byte{0};
  const auto own_ip = network_order(own.ip);
  if (to_many || wire::is_fragment(ip) || !is_host(wire::get32(ip, 12)) || length > ip.size() ||
      length < wire::kIpv4Bytes + kEchoHeaderBytes || !holds(ip.subspan(16), own_ip)) {
    return {};
  }
  const auto icmp = ip.subspan(wire::kIpv4Bytes, length - wire::kIpv4Bytes);
  if (icmp[0] != kEchoRequest || wire::internet_checksum(icmp) != 0) return {};
  std::copy_n(frame.begin() + 6, 6, frame.begin());
  put(frame.subspan(6), own.mac);
  std::copy_n(ip.begin() + 12, 4, ip.begin() + 16);
  put(ip.subspan(12), own_ip);
  ip[8] = kTtl;
  put_checksum(ip.first(wire::kIpv4Bytes), 10);
  icmp[0] = kEchoReply;
  put_checksum(icmp, 2);
  return frame.first(wire::kEthernetBytes + length);
}

}  // namespace

Igmp igmp_kind(std::span<const std::byte> frame) {
  const auto ip = frame.subspan(wire::kEthernetBytes);
  if (ip[9] != kProtocolIgmp) return Igmp::kNone;
  const std::size_t header = (static_cast<std::size_t>(ip[0]) & 0xf) * 4;
  const auto igmp = ip.first(wire::get16(ip, 2)).subspan(header);
  if (igmp.size() < kIgmpBytes || wire::internet_checksum(igmp) != 0) return Igmp::kMalformed;
  if (igmp[0] != kIgmpQuery) return Igmp::kOther;
  if (igmp.size() == kIgmpBytes) return Igmp::kQuery;
  const bool whole = igmp.size() >= kIgmpV3Bytes &&
                     igmp.size() >= kIgmpV3Bytes + std::size_t{4} * wire::get16(igmp, 10);
  return whole ? Igmp::kQuery : Igmp::kMalformed;
}

std::span<std::byte> answer(const OwnAddress& own, std::span<std::byte> frame) {
  if (frame.size() < wire::kEthernetBytes) return {};
  const auto ether_type = frame.subspan(12);
  if (starts_with(ether_type, {0x08, 0x06})) return answer_arp(own, frame);
  if (starts_with(ether_type, {0x08, 0x00})) return answer_echo(own, frame);
  return {};
}

}  // namespace tiercast::dpdk
