// Where IPv4 stands in a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tiercast::engine {

inline constexpr std::size_t kIp = 14;          // behind Ethernet's header
inline constexpr std::size_t kMinIpBytes = 20;  // a header without options
inline constexpr std::size_t kIpSource = kIp + 12;
inline constexpr std::size_t kIpDestination = kIp + 16;

// In network byte order, at a place within the frame.
inline std::uint32_t two_bytes_at(std::span<const std::byte> frame, std::size_t at) {
  return std::to_integer<std::uint32_t>(frame[at]) << 8 |
         std::to_integer<std::uint32_t>(frame[at + 1]);
}
inline std::uint32_t four_bytes_at(std::span<const std::byte> frame, std::size_t at) {
  return two_bytes_at(frame, at) << 16 | two_bytes_at(frame, at + 2);
}

// Whether the frame has a whole IPv4 header, its options left out.
inline bool is_ipv4(std::span<const std::byte> frame) {
  return frame.size() >= kIp + kMinIpBytes && two_bytes_at(frame, kIp - 2) == 0x0800 &&
         std::to_integer<unsigned>(frame[kIp]) >> 4 == 4;
}

}  // namespace tiercast::engine
