#include "tests/p4src/packet.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tiercast::p4test {
namespace {

constexpr std::size_t kTtlOffset = kEthernetBytes + 8;

void put(Frame& out, std::uint64_t value, unsigned bytes) {
  while (bytes-- > 0) out.push_back(static_cast<std::byte>(value >> (8 * bytes)));
}

std::uint64_t get(std::span<const std::byte> frame, std::size_t offset, unsigned bytes) {
  std::uint64_t value = 0;
  for (std::byte b : frame.subspan(offset, bytes)) {
    value = value << 8 | std::to_integer<std::uint64_t>(b);
  }
  return value;
}

std::size_t header_bytes(std::span<const std::byte> frame) {
  return 4 * (get(frame, kEthernetBytes, 1) & 0xf);
}

// One's complement sum of 16-bit words (RFC 1071).
std::uint16_t ones_complement_sum(std::span<const std::byte> words) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    sum += static_cast<std::uint32_t>(get(words, i, 2));
    if (sum > 0xffff) sum = (sum & 0xffff) + 1;
  }
  return static_cast<std::uint16_t>(sum);
}

}  // namespace

std::uint32_t address(std::string_view dotted) {
  std::uint32_t value = 0;
  std::string rest(dotted);
  for (int i = 0; i < 4; ++i) {
    std::size_t used = 0;
    value = value << 8 | static_cast<std::uint32_t>(std::stoul(rest, &used));
    rest.erase(0, used + 1);
  }
  if (!rest.empty()) throw std::invalid_argument("not an IPv4 address: " + std::string(dotted));
  return value;
}

std::uint32_t group(std::uint32_t session, std::uint32_t rank) {
  return address("239.192.0.0") + (session << 3 | rank);
}

std::uint64_t group_mac(std::uint32_t group_address) {
  return 0x01005e000000 | (group_address & 0x7fffff);
}

Frame Packet::bytes() const {
  Frame header;
  put(header, static_cast<unsigned>(version << 4) | ihl.value_or((kIpv4Bytes + options.size()) / 4),
      1);
  put(header, static_cast<unsigned>(dscp << 2 | ecn), 1);
  put(header, total_len.value_or(kIpv4Bytes + options.size() + payload.size()), 2);
  put(header, identification, 2);
  put(header, static_cast<unsigned>(flags << 13 | frag_offset), 2);
  put(header, ttl, 1);
  put(header, protocol, 1);
  put(header, 0, 2);
  put(header, src, 4);
  put(header, dst, 4);
  header.insert(header.end(), options.begin(), options.end());
  const auto sum = checksum.value_or(static_cast<std::uint16_t>(~ones_complement_sum(header)));
  header[10] = static_cast<std::byte>(sum >> 8);
  header[11] = static_cast<std::byte>(sum);

  Frame frame;
  put(frame, dst_mac, 6);
  put(frame, src_mac, 6);
  put(frame, ether_type, 2);
  frame.insert(frame.end(), header.begin(), header.end());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

Frame udp(std::uint16_t dst_port, std::span<const std::byte> message) {
  Frame out;
  put(out, 40000, 2);
  put(out, dst_port, 2);
  put(out, 8 + message.size(), 2);
  put(out, 0, 2);
  out.insert(out.end(), message.begin(), message.end());
  return out;
}

Packet layer_packet(std::uint32_t session, std::uint32_t rank, std::size_t ip_bytes) {
  constexpr std::size_t kSimDataBytes = 32;
  Frame message;
  put(message, 0x01010100, 4);  // version, data, SIM, no flags
  put(message, kSimDataBytes, 2);
  put(message, session, 2);
  put(message, rank, 1);
  message.resize(std::max(kSimDataBytes, ip_bytes - kIpv4Bytes - 8));
  const std::uint32_t to = group(session, rank);
  Packet packet;
  packet.dst_mac = group_mac(to);
  packet.dst = to;
  packet.ecn = kEct0;
  packet.payload = udp(5500, message);
  return packet;
}

Packet igmp_report(std::uint32_t group_address) {
  Packet packet;
  packet.dst_mac = group_mac(group_address);
  packet.dst = group_address;
  packet.ttl = 1;
  packet.protocol = kIgmp;
  put(packet.options, 0x94040000, 4);  // RFC 2113
  put(packet.payload, 0x1600, 2);      // RFC 2236: membership report
  put(packet.payload, 0, 2);
  put(packet.payload, group_address, 4);
  const auto sum = static_cast<std::uint16_t>(~ones_complement_sum(packet.payload));
  packet.payload[2] = static_cast<std::byte>(sum >> 8);
  packet.payload[3] = static_cast<std::byte>(sum);
  return packet;
}

Frame with_port(std::uint32_t port, const Frame& frame) {
  Frame out;
  out.reserve(2 + frame.size());
  put(out, port << 7, 2);
  out.insert(out.end(), frame.begin(), frame.end());
  return out;
}

std::uint64_t dst_mac(std::span<const std::byte> frame) { return get(frame, 0, 6); }
std::uint64_t src_mac(std::span<const std::byte> frame) { return get(frame, 6, 6); }
std::uint8_t ecn(std::span<const std::byte> frame) { return get(frame, kEthernetBytes + 1, 1) & 3; }
std::uint8_t ttl(std::span<const std::byte> frame) {
  return static_cast<std::uint8_t>(get(frame, kTtlOffset, 1));
}
std::uint16_t identification(std::span<const std::byte> frame) {
  return static_cast<std::uint16_t>(get(frame, kEthernetBytes + 4, 2));
}
std::uint16_t checksum(std::span<const std::byte> frame) {
  return static_cast<std::uint16_t>(get(frame, kEthernetBytes + 10, 2));
}
std::uint32_t dst(std::span<const std::byte> frame) {
  return static_cast<std::uint32_t>(get(frame, kEthernetBytes + 16, 4));
}

bool checksum_right(std::span<const std::byte> frame) {
  return ones_complement_sum(frame.subspan(kEthernetBytes, header_bytes(frame))) == 0xffff;
}

Frame ip_payload(std::span<const std::byte> frame) {
  const auto rest = frame.subspan(kEthernetBytes + header_bytes(frame));
  return {rest.begin(), rest.end()};
}

}  // namespace tiercast::p4test
