// The answers that a kernel would give for an address, on an interface without one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "agent/address.h"

namespace tiercast::sender {

struct OwnAddress {
  agent::MacAddress mac{};
  std::uint32_t ip = 0;  // host order
};

// Turns a request into its answer in place: an ARP request for `own` (RFC 826), or an ICMP echo
// request to it (RFC 792). Returns the answer, which lies in `frame`; empty if `frame` is neither.
std::span<std::byte> answer(const OwnAddress& own, std::span<std::byte> frame);

// What an IPv4 frame is to IGMP (RFC 3376). Our senders are members of 224.0.0.1 alone, which no
// IGMP message is ever sent about (RFC 3376 section 5), so no query has an answer.
enum class Igmp {
  kNone,       // another protocol
  kQuery,      // valid: of version 1, 2 or 3, general or for a group
  kOther,      // valid: a report or leave of others, or a type unknown here
  kMalformed,  // wrong checksum, or a length that no version has (RFC 3376 section 7.1)
};
// `frame`: has a valid IPv4 header.
Igmp igmp_kind(std::span<const std::byte> frame);

}  // namespace tiercast::sender
