// The packet socket inside DPDK's net_af_packet driver.
#pragma once

namespace tiercast::dpdk {

// Finds the AF_PACKET socket bound to interface `index` among this process's descriptors; -1 if
// there is none. The driver has no receive interrupt, but this socket, which it opened, is readable
// exactly while frames wait in its ring. The driver owns the descriptor, so callers may only poll
// it.
int find_packet_socket(unsigned index);

// Keeps the kernel from copying to the socket what other programs send through its interface, such
// as another sender at the same node.
void ignore_outgoing(int packet_socket);

}  // namespace tiercast::dpdk
