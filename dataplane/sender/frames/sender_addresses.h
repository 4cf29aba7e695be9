// The addresses that a sender writes into its packets.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/dpdk/responder.h"
#include "dataplane/dpdk/vlan.h"

namespace tiercast::sender {

using dpdk::OwnAddress;
using dpdk::Vlan;

struct SenderAddresses {
  OwnAddress own;
  agent::MacAddress gateway{};   // next hop of unicast messages
  std::uint32_t gateway_ip = 0;  // host order; 0: use `gateway` as given; otherwise ARP finds it
  std::optional<Vlan> vlan;
};

}  // namespace tiercast::sender
