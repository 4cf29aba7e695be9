// Completes a transport checksum that the sending kernel left to a device that does not exist.
#pragma once

#include <cstddef>
#include <span>

namespace tiercast::vswitch {

// frame: Ethernet, up to two VLAN tags, IPv4 or IPv6, followed directly by TCP or UDP. Returns
// false, and leaves the frame unchanged, for anything else and for a frame shorter than its headers
// say.
bool complete_checksum(std::span<std::byte> frame);

}  // namespace tiercast::vswitch
