// The packet socket inside DPDK's net_af_packet driver.
#pragma once

#include "agent/address.h"

namespace tiercast::dpdk {

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
