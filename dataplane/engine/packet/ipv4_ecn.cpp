#include "dataplane/engine/packet/ipv4_ecn.h"

#include <cstdint>

#include "dataplane/engine/packet/ipv4_layout.h"

namespace tiercast::engine {
namespace {

using ecn::kBits;
using ecn::kTos;
constexpr std::size_t kChecksum = kIp + 10;

}  // namespace

bool is_ecn_capable(std::span<const std::byte> frame) {
  return is_ipv4(frame) && (frame[kTos] & kBits) != std::byte{0};
}

void mark_congestion(std::span<std::byte> frame) {
  const std::uint32_t before = two_bytes_at(frame, kIp);
  frame[kTos] |= kBits;
  // HC' = ~(~HC + ~m + m')
  std::uint32_t sum =
      (~two_bytes_at(frame, kChecksum) & 0xffff) + (~before & 0xffff) + two_bytes_at(frame, kIp);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  frame[kChecksum] = static_cast<std::byte>(~sum >> 8 & 0xff);
  frame[kChecksum + 1] = static_cast<std::byte>(~sum & 0xff);
}

}  // namespace tiercast::engine
