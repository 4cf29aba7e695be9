// An IP packet in the virtual network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "protocols/base/units.h"
#include "protocols/core/core.h"

namespace tiercast::testkit {

struct Packet {
  std::uint32_t ip_length = 0;  // bytes
  std::uint32_t from = 0;       // node number, used as IPv4 address
  bool multicast = false;
  std::uint32_t to = 0;       // unicast: node number
  std::uint16_t session = 0;  // multicast: the group is (session, rank)
  Rank rank = 0;
  bool ect = false;  // ECN-capable
  bool ce = false;
  // Shared by all copies of a multicast packet. Never changed after sending.
  std::shared_ptr<const std::vector<std::byte>> message;
};

// Anything that takes packets: a router, a host, a test.
class PacketSink {
 public:
  virtual ~PacketSink() = default;
  virtual void receive(const Packet& packet) = 0;
};

}  // namespace tiercast::testkit
