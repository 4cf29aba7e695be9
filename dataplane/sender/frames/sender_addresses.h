// The addresses that a sender writes into its packets.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/dpdk/responder.h"

namespace tiercast::sender {

using dpdk::OwnAddress;

// An IEEE 802.1Q tag.
struct Vlan {
  std::uint16_t id = 0;       // 1..4094
  std::uint8_t priority = 0;  // 0..7
  std::uint16_t tag() const { return static_cast<std::uint16_t>(priority << 13 | id); }
};

struct SenderAddresses {
  OwnAddress own;
  agent::MacAddress gateway{};   // next hop of unicast messages
  std::uint32_t gateway_ip = 0;  // host order; 0: use `gateway` as given; otherwise ARP finds it
  std::optional<Vlan> vlan;
};

}  // namespace tiercast::sender
