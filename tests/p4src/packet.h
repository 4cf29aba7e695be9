// Builds and reads Ethernet frames with IPv4 packets for tests, independently of the program under
// test. Numbers are in host order here and in network order in the frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace tiercast::p4test {

using Frame = std::vector<std::byte>;

enum Ecn : std::uint8_t { kNotEct = 0, kEct1 = 1, kEct0 = 2, kCe = 3 };  // RFC 3168, 5

inline constexpr std::uint8_t kIgmp = 2;
inline constexpr std::uint8_t kTcp = 6;
inline constexpr std::uint8_t kUdp = 17;
inline constexpr std::size_t kEthernetBytes = 14;
inline constexpr std::size_t kIpv4Bytes = 20;
inline constexpr std::uint8_t kMoreFragments = 1;  // of the flags

// A random number below `bound`.
inline std::uint32_t draw(std::mt19937& random, std::uint32_t bound) {
  return static_cast<std::uint32_t>(random()) % bound;
}

// "10.0.3.2" as a number. The text must be a valid address.
std::uint32_t address(std::string_view dotted);
// 239.192.0.0/14 + (session << 3 | rank)
std::uint32_t group(std::uint32_t session, std::uint32_t rank);
// The Ethernet address of a group (RFC 1112, 6.4).
std::uint64_t group_mac(std::uint32_t group_address);

// Values left empty are computed so that the packet is correct.
struct Packet {
  std::uint64_t dst_mac = 0x020000000101;
  std::uint64_t src_mac = 0x020000000002;
  std::uint16_t ether_type = 0x0800;
  std::uint8_t version = 4;
  std::optional<std::uint8_t> ihl;  // 32-bit words
  std::uint8_t dscp = 0;
  std::uint8_t ecn = kNotEct;
  std::optional<std::uint16_t> total_len;  // bytes
  std::uint16_t identification = 0;
  std::uint8_t flags = 0;
  std::uint16_t frag_offset = 0;  // in units of 8 bytes
  std::uint8_t ttl = 64;
  std::uint8_t protocol = kUdp;
  std::optional<std::uint16_t> checksum;
  std::uint32_t src = 0x0a000002;
  std::uint32_t dst = 0x0a000102;
  Frame options;  // a multiple of 4 bytes
  Frame payload;  // of IPv4; starts with the UDP header, if there is one

  Frame bytes() const;
};

// A UDP datagram: header (without checksum) and message.
Frame udp(std::uint16_t dst_port, std::span<const std::byte> message);
// Data of a layer, ECT(0), with a SIM header and zeros up to ip_bytes (at least 60).
Packet layer_packet(std::uint32_t session, std::uint32_t rank, std::size_t ip_bytes = 1000);
// An IGMPv2 report as Linux sends it: TTL 1 and the Router Alert option.
Packet igmp_report(std::uint32_t group_address);

// A frame behind a packet_in or packet_out header: 9 bits of port, 7 bits of padding.
Frame with_port(std::uint32_t port, const Frame& frame);

// Read a frame, which must hold a whole IPv4 header.
std::uint64_t dst_mac(std::span<const std::byte> frame);
std::uint64_t src_mac(std::span<const std::byte> frame);
std::uint8_t ecn(std::span<const std::byte> frame);
std::uint8_t ttl(std::span<const std::byte> frame);
std::uint16_t identification(std::span<const std::byte> frame);
std::uint16_t checksum(std::span<const std::byte> frame);
std::uint32_t dst(std::span<const std::byte> frame);
// RFC 1071: the words of the header, including the checksum, add up to 0xffff.
bool checksum_right(std::span<const std::byte> frame);
// The bytes after the IPv4 header and its options.
Frame ip_payload(std::span<const std::byte> frame);

}  // namespace tiercast::p4test
