#include "protocols/wire/udp_frame.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "protocols/wire/bytes.h"
#include "protocols/wire/word_sum.h"

namespace tiercast::wire {
namespace {

constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
constexpr std::uint16_t kDontFragment = 0x4000;

}  // namespace

std::uint16_t transport_checksum(std::uint32_t source, std::uint32_t destination,
                                 std::uint8_t protocol, std::span<const std::byte> bytes) {
  const std::uint32_t pseudo_header = (source >> 16) + (source & 0xffff) + (destination >> 16) +
                                      (destination & 0xffff) + protocol +
                                      static_cast<std::uint32_t>(bytes.size());
  return internet_checksum(bytes, pseudo_header);
}

std::uint16_t internet_checksum(std::span<const std::byte> bytes, std::uint32_t start) {
  std::uint32_t sum = fold(sum_words(bytes.data(), bytes.size()));
  if constexpr (std::endian::native == std::endian::little) sum = (sum & 0xff) << 8 | sum >> 8;
  return static_cast<std::uint16_t>(~fold(std::uint64_t{sum} + start));
}

void write_ipv4_header(const Ipv4Flow& flow, std::uint16_t ip_id, std::span<std::byte> frame) {
  assert(frame.size() >= kEthernetBytes + kIpv4Bytes && frame.size() <= kEthernetBytes + 65535);
  std::copy(flow.destination_mac.begin(), flow.destination_mac.end(), frame.begin());
  std::copy(flow.source_mac.begin(), flow.source_mac.end(), frame.begin() + 6);
  put16(frame, 12, kEtherTypeIpv4);

  const auto ip = frame.subspan(kEthernetBytes);
  ip[0] = std::byte{0x45};
  ip[1] = static_cast<std::byte>(flow.ecn);
  put16(ip, 2, static_cast<std::uint16_t>(ip.size()));
  put16(ip, 4, ip_id);
  put16(ip, 6, kDontFragment);
  ip[8] = static_cast<std::byte>(flow.ttl);
  ip[9] = static_cast<std::byte>(flow.protocol);
  put16(ip, 10, 0);
  put32(ip, 12, flow.source);
  put32(ip, 16, flow.destination);
  put16(ip, 10, internet_checksum(ip.first(kIpv4Bytes)));
}

void write_udp_headers(const UdpFlow& flow, std::uint16_t ip_id, std::span<std::byte> frame) {
  assert(frame.size() >= kFrameHeaderBytes);
  write_ipv4_header(flow, ip_id, frame);
  const auto udp = frame.subspan(kEthernetBytes + kIpv4Bytes);
  const std::size_t udp_length = udp.size();
  put16(udp, 0, flow.source_port);
  put16(udp, 2, flow.destination_port);
  put16(udp, 4, static_cast<std::uint16_t>(udp_length));
  put16(udp, 6, 0);
  const std::uint16_t checksum = transport_checksum(flow.source, flow.destination, kUdp, udp);
  put16(udp, 6, checksum == 0 ? 0xffff : checksum);  // because zero means "no checksum" (RFC 768)
}

std::string_view name(FrameError error) {
  static constexpr std::string_view kNames[kFrameErrors] = {
      "ok",       "short",   "not_ipv4",   "ipv4_header", "ipv4_checksum",
      "fragment", "not_udp", "udp_length", "udp_checksum"};
  return kNames[static_cast<std::size_t>(error)];
}

FrameError parse_ipv4_frame(std::span<const std::byte> frame, Ipv4Packet& out) {
  if (frame.size() < kEthernetBytes) return FrameError::kShort;
  if (get16(frame, 12) != kEtherTypeIpv4) return FrameError::kNotIpv4;
  auto ip = frame.subspan(kEthernetBytes);
  if (ip.size() < kIpv4Bytes) return FrameError::kShort;
  if (static_cast<unsigned>(ip[0]) >> 4 != 4) return FrameError::kIpv4Header;
  const std::size_t header_length = (static_cast<unsigned>(ip[0]) & 0xf) * 4;
  const std::size_t ip_length = get16(ip, 2);
  if (header_length < kIpv4Bytes || ip_length < header_length) return FrameError::kIpv4Header;
  if (ip.size() < ip_length) return FrameError::kShort;
  ip = ip.first(ip_length);
  if (internet_checksum(ip.first(header_length)) != 0) return FrameError::kIpv4Checksum;
  if (is_fragment(ip)) return FrameError::kFragment;
  out.source = get32(ip, 12);
  out.destination = get32(ip, 16);
  out.protocol = get8(ip, 9);
  out.ip_length = static_cast<std::uint32_t>(ip_length);
  out.ecn = static_cast<Ecn>(get8(ip, 1) & 3);
  out.payload = ip.subspan(header_length);
  return FrameError::kOk;
}

FrameError parse_udp_frame(std::span<const std::byte> frame, UdpPacket& out) {
  if (const FrameError error = parse_ipv4_frame(frame, out); error != FrameError::kOk) return error;
  if (out.protocol != kUdp) return FrameError::kNotUdp;

  const auto udp = out.payload;
  if (udp.size() < kUdpBytes || get16(udp, 4) != udp.size()) return FrameError::kUdpLength;
  if (get16(udp, 6) != 0 && transport_checksum(out.source, out.destination, kUdp, udp) != 0) {
    return FrameError::kUdpChecksum;
  }
  out.source_port = get16(udp, 0);
  out.destination_port = get16(udp, 2);
  out.payload = udp.subspan(kUdpBytes);
  return FrameError::kOk;
}

}  // namespace tiercast::wire
