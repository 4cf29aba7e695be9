// Finishes a transport checksum that the sending kernel left to a device that is not there.
#pragma once

#include <cstddef>
#include <span>

namespace tiercast::vswitch {

// frame: Ethernet, up to two VLAN tags, IPv4 or IPv6, then TCP or UDP directly. Returns false, and
// leaves the frame as it is, for anything else or a frame shorter than its headers say.
bool complete_checksum(std::span<std::byte> frame);

}  // namespace tiercast::vswitch
