// What a packet is, and whether it is sampled: by a hash of what no switch changes, so that every
// hop samples the same packets (trajectory sampling: Duffield and Grossglauser 2001; RFC
// 5475, 6.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tiercast::trace {

struct SampledPacket {
  std::int32_t session = -1;   // 0..32767; -1: no session's data
  std::int32_t layer = -1;     // 0..7; -1: no session's data
  std::int64_t sequence = -1;  // of the layer, or TCP's; -1: neither
  std::uint16_t ip_id = 0;     // IPv4's identification
  std::uint32_t ip_bytes = 0;  // IPv4's total length
  std::string flow;            // "10.0.4.2:5500>239.192.0.10:5500/udp"
};

// Of an Ethernet frame; of one that is not IPv4 only the size is known.
SampledPacket describe(std::span<const std::byte> frame);

// Uniform over all 64-bit numbers: of addresses, protocol, identification and the first 24 bytes
// behind the IPv4 header. 2^64 - 1 for a frame that is not IPv4: only all packets together have it.
std::uint64_t sampling_hash(std::span<const std::byte> frame);

// Hashes up to this limit are sampled. share: above 0, to 1.
std::uint64_t sampling_limit(double share);

}  // namespace tiercast::trace
