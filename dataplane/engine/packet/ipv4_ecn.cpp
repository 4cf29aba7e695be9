#include "dataplane/engine/packet/ipv4_ecn.h"

#include <cstdint>

#include "dataplane/engine/packet/ipv4_layout.h"

namespace tiercast::engine {
namespace {

using ecn::kBits;
using ecn::kTos;
constexpr std::size_t kChecksum = kIp + 10;

std::uint32_t word(std::span<const std::byte> frame, std::size_t at) {
  return std::to_integer<std::uint32_t>(frame[at]) << 8 |
         std::to_integer<std::uint32_t>(frame[at + 1]);
}

}  // namespace

bool is_ecn_capable(std::span<const std::byte> frame) {
  return frame.size() >= kIp + kMinIpBytes && word(frame, kIp - 2) == 0x0800 &&
         std::to_integer<unsigned>(frame[kIp]) >> 4 == 4 && (frame[kTos] & kBits) != std::byte{0};
}

void mark_congestion(std::span<std::byte> frame) {
  const std::uint32_t before = word(frame, kIp);
  frame[kTos] |= kBits;
  // HC' = ~(~HC + ~m + m')
  std::uint32_t sum = (~word(frame, kChecksum) & 0xffff) + (~before & 0xffff) + word(frame, kIp);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  frame[kChecksum] = static_cast<std::byte>(~sum >> 8 & 0xff);
  frame[kChecksum + 1] = static_cast<std::byte>(~sum & 0xff);
}

}  // namespace tiercast::engine
