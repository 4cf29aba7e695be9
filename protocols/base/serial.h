// Serial number arithmetic for wrapping counters (RFC 1982; PROTOCOLS 0.2). Never compare raw
// values.
#pragma once

#include <cstdint>

namespace tiercast {

// How far `a` is ahead of `b`; negative if behind.
constexpr std::int32_t serial_difference(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b);
}
constexpr std::int16_t serial_difference(std::uint16_t a, std::uint16_t b) {
  return static_cast<std::int16_t>(static_cast<std::uint16_t>(a - b));
}
template <typename Unsigned>
constexpr bool serial_newer(Unsigned a, Unsigned b) {
  return serial_difference(a, b) > 0;
}

}  // namespace tiercast
