// Big-endian integers at fixed offsets of a buffer. The caller must have checked the length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tiercast::wire {

inline std::uint8_t get8(std::span<const std::byte> in, std::size_t at) {
  return static_cast<std::uint8_t>(in[at]);
}
inline std::uint16_t get16(std::span<const std::byte> in, std::size_t at) {
  return static_cast<std::uint16_t>(get8(in, at) << 8 | get8(in, at + 1));
}
inline std::uint32_t get32(std::span<const std::byte> in, std::size_t at) {
  return static_cast<std::uint32_t>(get16(in, at)) << 16 | get16(in, at + 2);
}
inline void put8(std::span<std::byte> out, std::size_t at, std::uint8_t value) {
  out[at] = static_cast<std::byte>(value);
}
inline void put16(std::span<std::byte> out, std::size_t at, std::uint16_t value) {
  put8(out, at, static_cast<std::uint8_t>(value >> 8));
  put8(out, at + 1, static_cast<std::uint8_t>(value));
}
inline void put32(std::span<std::byte> out, std::size_t at, std::uint32_t value) {
  put16(out, at, static_cast<std::uint16_t>(value >> 16));
  put16(out, at + 2, static_cast<std::uint16_t>(value));
}

}  // namespace tiercast::wire
