// The packet socket inside DPDK's net_af_packet driver.
#pragma once

namespace tiercast::sender {

// The driver has no receive interrupt, but the socket it opened is readable exactly
// while frames wait in its ring. Finds, among this process's descriptors, the AF_PACKET
// socket bound to interface `index`; -1 if there is none. The driver owns the
// descriptor: it may be polled, nothing else.
int find_packet_socket(unsigned index);

}  // namespace tiercast::sender
