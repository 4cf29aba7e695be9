#include "dataplane/trace/sampled_packet.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tiercast::trace {
namespace {

constexpr std::size_t kIp = 14, kLeastIpBytes = 20, kHashedBytes = 24;
constexpr std::uint8_t kTcp = 6, kUdp = 17;
constexpr std::uint32_t kGroupBase = 0xefc00000;  // 239.192.0.0/14: session << 3 | rank
constexpr unsigned kGroupBits = 18, kRankBits = 3;
constexpr std::uint16_t kDataPort = 5500;
// docs/wire-format.md: offsets in the UDP payload. Schemes without a number of their own may have
// their sequence elsewhere.
constexpr std::size_t kUdpHeader = 8, kTypeAt = 1, kSchemeAt = 2, kSequenceAt = 12;
constexpr std::uint64_t kData = 1, kForeignScheme = 255;
constexpr std::size_t kTcpSequenceAt = 4;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

std::uint64_t number(std::span<const std::byte> bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  }
  return value;
}

bool is_ipv4(std::span<const std::byte> frame) {
  return frame.size() >= kIp + kLeastIpBytes && number(frame, 12, 2) == 0x0800 &&
         number(frame, kIp, 1) >> 4 == 4;
}

std::size_t payload_at(std::span<const std::byte> frame) {
  return std::min<std::size_t>(kIp + (number(frame, kIp, 1) & 0xf) * 4, frame.size());
}

std::string dotted(std::uint64_t address) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) {
    text += std::to_string(address >> shift & 0xff) + (shift > 0 ? "." : "");
  }
  return text;
}

}  // namespace

SampledPacket describe(std::span<const std::byte> frame) {
  SampledPacket result;
  if (!is_ipv4(frame)) {
    result.ip_bytes = static_cast<std::uint32_t>(frame.size() - std::min(frame.size(), kIp));
    return result;
  }
  result.ip_bytes = static_cast<std::uint32_t>(number(frame, kIp + 2, 2));
  result.ip_id = static_cast<std::uint16_t>(number(frame, kIp + 4, 2));
  const std::uint64_t protocol = number(frame, kIp + 9, 1);
  const std::uint64_t to = number(frame, kIp + 16, 4);
  std::string source = dotted(number(frame, kIp + 12, 4)), destination = dotted(to);
  const std::span<const std::byte> payload = frame.subspan(payload_at(frame));
  const bool has_ports = (protocol == kTcp || protocol == kUdp) && payload.size() >= 8;
  if (has_ports) {
    source += ":" + std::to_string(number(payload, 0, 2));
    destination += ":" + std::to_string(number(payload, 2, 2));
  }
  const std::string name = protocol == kTcp   ? "tcp"
                           : protocol == kUdp ? "udp"
                                              : std::to_string(protocol);
  result.flow = source + ">" + destination + "/" + name;
  if (has_ports && protocol == kTcp) {
    result.sequence = static_cast<std::int64_t>(number(payload, kTcpSequenceAt, 4));
  }
  const bool to_group = to >> kGroupBits == kGroupBase >> kGroupBits;
  if (!to_group || protocol != kUdp || payload.size() < kUdpHeader + kSequenceAt + 4 ||
      number(payload, 2, 2) != kDataPort || number(payload, kUdpHeader + kTypeAt, 1) != kData) {
    return result;
  }
  result.session = static_cast<std::int32_t>((to - kGroupBase) >> kRankBits);
  result.layer = static_cast<std::int32_t>(to & ((1u << kRankBits) - 1));
  if (number(payload, kUdpHeader + kSchemeAt, 1) != kForeignScheme) {
    result.sequence = static_cast<std::int64_t>(number(payload, kUdpHeader + kSequenceAt, 4));
  }
  return result;
}

std::uint64_t sampling_hash(std::span<const std::byte> frame) {
  if (!is_ipv4(frame)) return kMost;
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&](std::size_t from, std::size_t bytes) {
    for (const std::byte byte : frame.subspan(from, bytes)) {
      hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
    }
  };
  add(kIp + 4, 2);   // identification
  add(kIp + 9, 1);   // protocol
  add(kIp + 12, 8);  // addresses
  const std::size_t payload = payload_at(frame);
  add(payload, std::min(kHashedBytes, frame.size() - payload));
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;  // SplitMix64: FNV's high bits are poor
  hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
  return hash ^ hash >> 31;
}

std::uint64_t sampling_limit(double share) {
  const double limit = std::ldexp(share, 64);
  return limit >= std::ldexp(1.0, 64) ? kMost : static_cast<std::uint64_t>(limit);
}

}  // namespace tiercast::trace
