// Unicast over paths of equal cost: of a destination's next hops, a flow takes the one that a hash
// of its addresses and ports chooses (ECMP, RFC 2991).
#ifndef TIERCAST_EQUAL_PATHS_P4
#define TIERCAST_EQUAL_PATHS_P4

#include "../include/headers.p4"

control EqualPaths(inout ethernet_t ethernet, in ipv4_t ipv4, in bit<32> flow_hash,
                   out bool found, out port_t egress_port) {
    bit<16> hop;

    // Hash-threshold (RFC 2992) on 16 bits: of `count` equal parts of their range, the one that
    // they fall into. They are the upper bits of a product with an odd number that each switch has
    // for itself (multiply-shift): flows that chose alike at one switch spread again at the next.
    // Another start value of the CRC would not do, since it changes all hashes by the same XOR.
    @name(".spread")
    action spread(bit<16> first, bit<16> count, bit<32> multiplier) {
        bit<32> mixed = flow_hash * multiplier;
        bit<32> part = ((bit<32>)mixed[31:16] * (bit<32>)count) >> 16;
        hop = first + part[15:0];
    }

    // Destinations with several next hops, which next_hop has side by side from `first` on. Entry:
    // 32 bits of key with their mask, 64 of action data.
    @name(".ipv4_spread")
    table ipv4_spread {
        key = { ipv4.dst_addr: lpm @name("hdr.ipv4.dst_addr"); }
        actions = { spread; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 8192;
    }

    // As `forward` in lib/forwarding.p4.
    @name(".take")
    action take(port_t port, bit<48> dst_mac) {
        found = true;
        egress_port = port;
        ethernet.src_addr = ethernet.dst_addr;
        ethernet.dst_addr = dst_mac;
    }

    // Entry: 16 bits of key, 57 of action data.
    @name(".next_hop")
    table next_hop {
        key = { hop: exact @name("hop"); }
        actions = { take; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 4096;
    }

    apply {
        found = false;
        egress_port = 0;
        hop = 0;
        if (ipv4_spread.apply().hit) {
            next_hop.apply();
        }
    }
}

#endif
