// The hash by which flows spread over equal paths (lib/equal_paths.p4).
#ifndef TIERCAST_FLOW_HASH_P4
#define TIERCAST_FLOW_HASH_P4

#include <v1model.p4>

#include "../include/headers.p4"

// CRC-32 of 13 bytes: source, destination, source port, destination port, protocol. The ports are
// those of UDP and TCP; of other packets, of headers with options, and of fragments they are 0, so
// that all fragments of a packet take one path.
control FlowHash(in headers_t hdr, in bit<32> tcp_ports, out bit<32> flow_hash) {
    apply {
        bit<32> ports = tcp_ports;
        if (hdr.udp.isValid()) {
            ports = hdr.udp.src_port ++ hdr.udp.dst_port;
        }
        if (hdr.ipv4.flags[0:0] == 1) {  // more fragments
            ports = 0;
        }
        hash(flow_hash, HashAlgorithm.crc32, 32w0,
             { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, ports, hdr.ipv4.protocol },
             64w0x100000000);
    }
}

#endif
