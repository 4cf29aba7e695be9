// IPv4 addresses (in host order) and MAC addresses, and their text forms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocols/wire/udp_frame.h"

namespace tiercast::agent {

using wire::is_multicast;
using wire::MacAddress;
using wire::multicast_mac;

// Parses "10.0.0.2". ConfigError names `what`, the text and the expected form.
std::uint32_t parse_ipv4(std::string_view text, std::string_view what);
std::string format_ipv4(std::uint32_t address);

// Parses "02:00:00:00:00:0f". ConfigError as above.
MacAddress parse_mac(std::string_view text, std::string_view what);
std::string format_mac(const MacAddress& mac);

}  // namespace tiercast::agent
