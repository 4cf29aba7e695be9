#include "dataplane/streams/data_frame.h"

#include <cstring>

#include "protocols/wire/bytes.h"
#include "protocols/wire/wire.h"
#include "protocols/wire/word_sum.h"

namespace tiercast::streams {
namespace {

using wire::get16;
using wire::get32;

constexpr std::uint16_t kTestSignature = 0x7C42;
constexpr std::size_t kSeqAt = 12;   // in the data of every scheme (docs/wire-format.md)
constexpr std::size_t kTimeAt = 16;  // in that of schemes with a time of departure
constexpr std::uint16_t kSeqEnd = 16;
constexpr std::uint8_t kProtocolUdp = 17;

bool has_time(wire::SchemeId scheme) {
  switch (scheme) {
    case wire::SchemeId::kSim:
    case wire::SchemeId::kRla:
    case wire::SchemeId::kMlda:
    case wire::SchemeId::kTfmcc:
    case wire::SchemeId::kPgmcc: return true;
    default: return false;
  }
}

bool repeats(wire::SchemeId scheme) {
  return scheme == wire::SchemeId::kRla || scheme == wire::SchemeId::kMdpcc;
}

// parse_udp_frame() for the common case, an IPv4 header without options, in a few nanoseconds.
wire::FrameError parse(std::span<const std::byte> frame, wire::UdpPacket& out) {
  using wire::FrameError;
  if (frame.size() < wire::kFrameHeaderBytes || frame[14] != std::byte{0x45} ||
      get16(frame, 12) != 0x0800 || static_cast<std::uint8_t>(frame[23]) != kProtocolUdp) {
    return wire::parse_udp_frame(frame, out);
  }
  const auto ip = frame.subspan(wire::kEthernetBytes);
  const std::size_t ip_length = get16(ip, 2);
  if (ip.size() < ip_length) return FrameError::kShort;
  if (ip_length < wire::kIpv4Bytes + wire::kUdpBytes) return wire::parse_udp_frame(frame, out);
  if (wire::fold(wire::sum_words(ip.data(), wire::kIpv4Bytes)) != 0xffff) {
    return FrameError::kIpv4Checksum;
  }
  if (wire::is_fragment(ip)) return FrameError::kFragment;
  const std::size_t udp_length = ip_length - wire::kIpv4Bytes;
  const auto udp = ip.subspan(wire::kIpv4Bytes, udp_length);
  if (get16(udp, 4) != udp_length) return FrameError::kUdpLength;
  if (get16(udp, 6) != 0) {
    // The pseudo header (RFC 768): addresses, protocol and length, the last two in network order.
    const std::byte rest[4] = {std::byte{0}, std::byte{kProtocolUdp}, udp[4], udp[5]};
    const std::uint64_t sum = wire::sum_words(ip.data() + 12, 8) + wire::sum_words(rest, 4) +
                              wire::sum_words(udp.data(), udp_length);
    if (wire::fold(sum) != 0xffff) return FrameError::kUdpChecksum;
  }
  out.source = get32(ip, 12);
  out.destination = get32(ip, 16);
  out.source_port = get16(udp, 0);
  out.destination_port = get16(udp, 2);
  out.ip_length = static_cast<std::uint32_t>(ip_length);
  out.ecn = static_cast<wire::Ecn>(static_cast<unsigned>(ip[1]) & 3);
  out.payload = udp.subspan(wire::kUdpBytes);
  return FrameError::kOk;
}

Reading read_scheme(std::span<const std::byte> message, std::int64_t arrival_ns, DataFrame& out) {
  wire::CommonHeader header;
  if (wire::parse_common(message, header) != wire::Error::kOk) return Reading::kMalformed;
  if (header.type == wire::Type::kControl) return Reading::kControl;
  if (header.type != wire::Type::kData) return Reading::kOther;
  const bool timed = has_time(header.scheme);
  if (message.size() < header.header_length || header.header_length < (timed ? 20 : kSeqEnd)) {
    return Reading::kMalformed;
  }
  // A group's address is its name.
  if ((out.group & ~7u) != wire::group_address(header.session, 0)) return Reading::kMalformed;
  out.seq = get32(message, kSeqAt);
  out.repeats = repeats(header.scheme);
  out.stamped = timed;
  if (timed) {
    out.sent = get32(message, kTimeAt);
    const std::int64_t now_us = arrival_ns / 1000;
    const auto waited = static_cast<std::int32_t>(static_cast<std::uint32_t>(now_us) - out.sent);
    out.latency_ns = std::int64_t{waited} * 1000 + arrival_ns % 1000;
  }
  return Reading::kData;
}

}  // namespace

void write_test_message(const TestMessage& message, std::span<std::byte> out) {
  wire::put16(out, 0, kTestSignature);
  wire::put16(out, 2, message.trial);
  wire::put32(out, 4, message.seq);
  wire::put32(out, 8, static_cast<std::uint32_t>(message.sent_ns >> 32));
  wire::put32(out, 12, static_cast<std::uint32_t>(message.sent_ns));
  wire::put16(out, 16, 0);
}

bool parse_test_message(std::span<const std::byte> in, TestMessage& out) {
  if (get16(in, 0) != kTestSignature || get16(in, 16) != 0) return false;
  out.trial = get16(in, 2);
  out.seq = get32(in, 4);
  out.sent_ns = static_cast<std::int64_t>(std::uint64_t{get32(in, 8)} << 32 | get32(in, 12));
  return true;
}

Reading read_data_frame(std::span<const std::byte> frame, std::int64_t arrival_ns, DataFrame& out) {
  wire::UdpPacket packet;
  switch (parse(frame, packet)) {
    case wire::FrameError::kOk: break;
    case wire::FrameError::kNotIpv4:
    case wire::FrameError::kFragment:
    case wire::FrameError::kNotUdp: return Reading::kOther;
    default: return Reading::kMalformed;
  }
  out.source = packet.source;
  out.group = packet.destination;
  out.ip_bytes = packet.ip_length;
  out.ecn = packet.ecn;
  if (packet.destination_port == TestMessage::kPort) {
    TestMessage message;
    if (packet.payload.size() < TestMessage::kBytes ||
        !parse_test_message(packet.payload, message)) {
      return Reading::kMalformed;
    }
    out.seq = message.seq;
    out.trial = message.trial;
    out.stamped = true;
    out.repeats = false;
    out.sent = static_cast<std::uint32_t>(message.sent_ns >> 10);
    out.latency_ns = arrival_ns - message.sent_ns;
    return Reading::kTest;
  }
  if (packet.destination_port != wire::kDataPort || !wire::is_multicast(packet.destination)) {
    return Reading::kOther;
  }
  return read_scheme(packet.payload, arrival_ns, out);
}

}  // namespace tiercast::streams
