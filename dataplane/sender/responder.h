// Answers that a kernel would give for an address, on an interface
// that the kernel has no address on.
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

}  // namespace tiercast::sender
