// The packet socket inside DPDK's net_af_packet driver.
#pragma once

#include <rte_dev.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "agent/address.h"

namespace tiercast::dpdk {

// The socket's rings, as the device's arguments say: net_af_packet0,framesz=N,blocksz=N.
class PacketRing {
 public:
  explicit PacketRing(const rte_device& device);
  // ConfigError: a frame has no room for a packet of so many IP bytes, whose end would be lost, or
  // is larger than any buffer; or frames do not fill a block.
  void check(std::uint32_t ip_bytes) const;
  // The room, in bytes, that the driver requires of a buffer for what is received.
  std::size_t received_bytes() const;

 private:
  const std::string device_;
  const std::size_t frame_bytes_;
  const std::size_t block_bytes_;
};

// Finds the AF_PACKET socket bound to interface `index` among this process's descriptors; -1 if
// there is none. The driver has no receive interrupt, but this socket, which it opened, is readable
// exactly while frames wait in its ring. The driver owns the descriptor, so callers may only poll
// it.
int find_packet_socket(unsigned index);

// Keeps the kernel from copying to the socket what other programs send through its interface, such
// as another sender at the same node.
void ignore_outgoing(int packet_socket);

// Has interface `index` receive frames to `mac`, too, for as long as the socket is open.
void receive_for(int packet_socket, unsigned index, const agent::MacAddress& mac);

}  // namespace tiercast::dpdk
