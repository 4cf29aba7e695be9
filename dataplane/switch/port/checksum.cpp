#include "dataplane/switch/port/checksum.h"

#include <netinet/in.h>

#include <cstdint>

namespace tiercast::vswitch {
namespace {

constexpr std::uint16_t kIpv4 = 0x0800, kIpv6 = 0x86dd, kVlan = 0x8100, kServiceVlan = 0x88a8;

unsigned byte_at(std::span<const std::byte> data, std::size_t offset) {
  return std::to_integer<unsigned>(data[offset]);
}

unsigned word_at(std::span<const std::byte> data, std::size_t offset) {
  return byte_at(data, offset) << 8 | byte_at(data, offset + 1);
}

// The sum of 16-bit words in network order, with an odd last byte padded with zero (RFC 1071).
std::uint64_t sum_words(std::span<const std::byte> data) {
  std::uint64_t sum = 0;
  std::size_t i = 0;
  for (; i + 1 < data.size(); i += 2) sum += word_at(data, i);
  if (i < data.size()) sum += byte_at(data, i) << 8;
  return sum;
}

struct Transport {
  unsigned protocol = 0;
  std::span<const std::byte> addresses;  // source and destination
  std::span<std::byte> segment;          // header and payload

  std::span<std::byte> checksum() const {
    return segment.subspan(protocol == IPPROTO_UDP ? 6 : 16, 2);
  }
};

std::uint64_t pseudo_header(const Transport& transport) {
  return sum_words(transport.addresses) + transport.protocol + transport.segment.size();
}

unsigned fold(std::uint64_t sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<unsigned>(sum);
}

bool find_transport(std::span<std::byte> frame, Transport& out) {
  std::size_t offset = 12;
  if (frame.size() < offset + 2) return false;
  unsigned ether_type = word_at(frame, offset);
  for (int tags = 0; tags < 2 && (ether_type == kVlan || ether_type == kServiceVlan); ++tags) {
    offset += 4;
    if (frame.size() < offset + 2) return false;
    ether_type = word_at(frame, offset);
  }
  const std::span<std::byte> packet = frame.subspan(offset + 2);

  std::size_t header = 0, total = 0;
  if (ether_type == kIpv4 && packet.size() >= 20) {
    header = (byte_at(packet, 0) & 0x0f) * 4;
    total = word_at(packet, 2);
    if (word_at(packet, 6) & 0x3fff) return false;  // a fragment
    out.protocol = byte_at(packet, 9);
    out.addresses = packet.subspan(12, 8);
    if (header < 20) return false;
  } else if (ether_type == kIpv6 && packet.size() >= 40) {
    header = 40;
    total = header + word_at(packet, 4);
    out.protocol = byte_at(packet, 6);
    out.addresses = packet.subspan(8, 32);
  } else {
    return false;
  }
  if (total < header || total > packet.size()) return false;
  out.segment = packet.subspan(header, total - header);
  return (out.protocol == IPPROTO_UDP && out.segment.size() >= 8) ||
         (out.protocol == IPPROTO_TCP && out.segment.size() >= 20);
}

}  // namespace

bool complete_checksum(std::span<std::byte> frame) {
  Transport transport;
  if (!find_transport(frame, transport)) return false;
  const std::span<std::byte> field = transport.checksum();
  field[0] = field[1] = std::byte{0};
  auto checksum =
      static_cast<std::uint16_t>(~fold(pseudo_header(transport) + sum_words(transport.segment)));
  // RFC 768: zero on the wire would mean "no checksum".
  if (checksum == 0 && transport.protocol == IPPROTO_UDP) checksum = 0xffff;
  field[0] = std::byte(checksum >> 8);
  field[1] = std::byte(checksum & 0xff);
  return true;
}

bool checksum_is_left(std::span<std::byte> frame) {
  Transport transport;
  return find_transport(frame, transport) &&
         word_at(transport.checksum(), 0) == fold(pseudo_header(transport));
}

}  // namespace tiercast::vswitch
