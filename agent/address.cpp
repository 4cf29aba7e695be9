#include "agent/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

#include "protocols/base/units.h"

namespace tiercast::agent {

std::uint32_t parse_ipv4(std::string_view text, std::string_view what) {
  in_addr address{};
  if (inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) {
    throw ConfigError(fmt::format("{}: '{}' is not an IPv4 address such as 10.0.0.2", what, text));
  }
  return ntohl(address.s_addr);
}

std::string format_ipv4(std::uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 0xff, address >> 8 & 0xff,
                     address & 0xff);
}

MacAddress parse_mac(std::string_view text, std::string_view what) {
  MacAddress mac{};
  bool good = text.size() == 17;
  for (std::size_t i = 0; good && i < mac.size(); ++i) {
    unsigned value = 0;
    const char* first = text.data() + 3 * i;
    const auto [end, error] = std::from_chars(first, first + 2, value, 16);
    good = error == std::errc() && end == first + 2 && (i == 5 || first[2] == ':');
    mac[i] = static_cast<std::byte>(value);
  }
  if (!good) {
    throw ConfigError(
        fmt::format("{}: '{}' is not a MAC address such as 02:00:00:00:00:0f", what, text));
  }
  return mac;
}

std::string format_mac(const MacAddress& mac) {
  std::string text;
  for (const std::byte b : mac) {
    text += fmt::format("{}{:02x}", text.empty() ? "" : ":", static_cast<unsigned>(b));
  }
  return text;
}

}  // namespace tiercast::agent
