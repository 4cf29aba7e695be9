// Transport checksums that the sending kernel left to a device that does not exist.
#pragma once

#include <cstddef>
#include <span>

namespace tiercast::vswitch {

// frame: Ethernet, up to two VLAN tags, IPv4 or IPv6, followed directly by TCP or UDP. Returns
// false, and leaves the frame unchanged, for anything else and for a frame shorter than its headers
// say.
bool complete_checksum(std::span<std::byte> frame);

// Whether a frame as above has the sum of its pseudo-header as its checksum, which is what a kernel
// leaves there for a device. (A complete checksum may have that value, too; completing it again
// then changes nothing.)
bool checksum_is_left(std::span<std::byte> frame);

}  // namespace tiercast::vswitch
