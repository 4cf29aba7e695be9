// IPv4 addresses (host order) and MAC addresses, and their text forms.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tiercast::agent {

using MacAddress = std::array<std::byte, 6>;

// "10.0.0.2". ConfigError names `what`, the text and the form.
std::uint32_t parse_ipv4(std::string_view text, std::string_view what);
std::string format_ipv4(std::uint32_t address);

// "02:00:00:00:00:0f". ConfigError as above.
MacAddress parse_mac(std::string_view text, std::string_view what);
std::string format_mac(const MacAddress& mac);

constexpr bool is_multicast(std::uint32_t address) { return address >> 28 == 0xE; }

// 01:00:5e and the low 23 bits of the group address (RFC 1112 6.4).
constexpr MacAddress multicast_mac(std::uint32_t group) {
  return {std::byte{0x01},
          std::byte{0x00},
          std::byte{0x5e},
          static_cast<std::byte>(group >> 16 & 0x7f),
          static_cast<std::byte>(group >> 8),
          static_cast<std::byte>(group)};
}

}  // namespace tiercast::agent
