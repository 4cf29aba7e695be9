// Ethernet/IPv4 and Ethernet/IPv4/UDP frames as bytes. They are built from a template, and
// validated before anything in them is read.
//
// For runtimes that drive an interface without the kernel (DPDK, ns-3). VLAN tags are not
// supported. IPv4 options are accepted but never produced.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "protocols/wire/bytes.h"

namespace tiercast::wire {

using MacAddress = std::array<std::byte, 6>;

// `address`: IPv4, in host order.
constexpr bool is_multicast(std::uint32_t address) { return address >> 28 == 0xE; }

// 01:00:5e and the low 23 bits of the group address (RFC 1112 6.4).
constexpr MacAddress multicast_mac(std::uint32_t group) {
  return {std::byte{0x01},
          std::byte{0x00},
          std::byte{0x5e},
          static_cast<std::byte>(group >> 16 & 0x7f),
          static_cast<std::byte>(group >> 8),
          static_cast<std::byte>(group)};
}

inline constexpr std::size_t kEthernetBytes = 14;
inline constexpr std::size_t kIpv4Bytes = 20;  // without options
inline constexpr std::size_t kUdpBytes = 8;
inline constexpr std::uint8_t kUdp = 17;  // IPv4's number of it
inline constexpr std::size_t kFrameHeaderBytes = kEthernetBytes + kIpv4Bytes + kUdpBytes;

// Whether an IPv4 packet is a part of one: more fragments follow, or it has an offset (RFC 791).
inline bool is_fragment(std::span<const std::byte> ip) { return (get16(ip, 6) & 0x3fff) != 0; }

enum class Ecn : std::uint8_t { kNotEct = 0, kEct1 = 1, kEct0 = 2, kCe = 3 };  // RFC 3168 5

// Ones' complement sum of 16-bit words, folded and inverted (RFC 1071). `start` is an unfolded sum
// to continue from.
std::uint16_t internet_checksum(std::span<const std::byte> bytes, std::uint32_t start = 0);

// The fields that are the same in every packet.
struct Ipv4Flow {
  MacAddress source_mac{};
  MacAddress destination_mac{};
  std::uint32_t source = 0;  // host order
  std::uint32_t destination = 0;
  std::uint8_t protocol = kUdp;
  Ecn ecn = Ecn::kNotEct;
  std::uint8_t ttl = 64;
};

// Writes Ethernet's and IPv4's headers in front of a payload that is already at
// frame[kEthernetBytes + kIpv4Bytes ..]. All lengths follow from the frame's size: at most
// kEthernetBytes + 65535. Computes the header's checksum and sets don't-fragment.
void write_ipv4_header(const Ipv4Flow& flow, std::uint16_t ip_id, std::span<std::byte> frame);

// The checksum of UDP (RFC 768) or TCP (RFC 9293 3.1) over their bytes, of which it is a part: 0 if
// it is right.
std::uint16_t transport_checksum(std::uint32_t source, std::uint32_t destination,
                                 std::uint8_t protocol, std::span<const std::byte> bytes);

struct UdpFlow : Ipv4Flow {
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};

// Writes the headers in front of a payload that is already at frame[kFrameHeaderBytes ..]. All
// lengths follow from the frame's size: kFrameHeaderBytes .. kEthernetBytes + 65535. Computes both
// checksums and sets don't-fragment.
void write_udp_headers(const UdpFlow& flow, std::uint16_t ip_id, std::span<std::byte> frame);

enum class FrameError {
  kOk,
  kShort,       // fewer bytes than the headers, or IPv4's total length, require
  kNotIpv4,     // another EtherType
  kIpv4Header,  // version, header length or total length impossible
  kIpv4Checksum,
  kFragment,     // fragments are not reassembled
  kNotUdp,       // another protocol over IPv4
  kUdpLength,    // does not match the rest of the IPv4 packet
  kUdpChecksum,  // wrong; a missing one (zero) is allowed (RFC 768)
};
inline constexpr std::size_t kFrameErrors = 9;
std::string_view name(FrameError error);  // "ok", "short", ...

struct Ipv4Packet {
  std::uint32_t source = 0;  // host order; so is the destination
  std::uint32_t destination = 0;
  std::uint8_t protocol = 0;
  std::uint32_t ip_length = 0;  // including the IP header
  Ecn ecn = Ecn::kNotEct;
  std::span<const std::byte> payload;  // a part of the frame
};

// Ignores bytes after the IPv4 packet (Ethernet padding). Its errors are those up to kFragment. On
// error the content of `out` is unspecified.
FrameError parse_ipv4_frame(std::span<const std::byte> frame, Ipv4Packet& out);

// Its payload is UDP's.
struct UdpPacket : Ipv4Packet {
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};

// As parse_ipv4_frame(), and then UDP's header.
FrameError parse_udp_frame(std::span<const std::byte> frame, UdpPacket& out);

}  // namespace tiercast::wire
