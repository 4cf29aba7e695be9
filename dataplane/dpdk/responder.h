// The answers that a kernel would give for an address, for an interface that has no kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "agent/address.h"

namespace tiercast::dpdk {

inline constexpr std::size_t kArpBytes = 28;  // of IPv4 over Ethernet (RFC 826)

struct OwnAddress {
  agent::MacAddress mac{};
  std::uint32_t ip = 0;  // host order
};

// Turns a request into its answer, in place: an ARP request for `own` (RFC 826) or an ICMP echo
// request to it (RFC 792). Returns the answer, which is a part of `frame`; empty if `frame` is
// neither, or an echo request that is not to be answered: a fragment, one with IPv4 options, from
// an address that no host has, or in a frame for many.
std::span<std::byte> answer(const OwnAddress& own, std::span<std::byte> frame);

// What an IPv4 frame is in terms of IGMP (RFC 3376). Our senders are members only of 224.0.0.1, for
// which no IGMP message is ever sent (RFC 3376 section 5), so no query needs an answer.
enum class Igmp {
  kNone,       // another protocol
  kQuery,      // valid: version 1, 2 or 3, general or for one group
  kOther,      // valid: a report or leave of another host, or an unknown type
  kMalformed,  // wrong checksum, or a length that no version allows (RFC 3376 section 7.1)
};
// `frame` must have a valid IPv4 header.
Igmp igmp_kind(std::span<const std::byte> frame);

}  // namespace tiercast::dpdk
