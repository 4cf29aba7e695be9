// Unicast: the port and next hop of an IPv4 address. Hosts are looked up first, then prefixes; what
// neither knows is dropped.
#ifndef TIERCAST_FORWARDING_P4
#define TIERCAST_FORWARDING_P4

#include "../include/headers.p4"

control UnicastForwarding(inout ethernet_t ethernet, in ipv4_t ipv4,
                          out bool found, out port_t egress_port) {
    // The frame leaves from the address at which it arrived: a router's ports here share no
    // segment.
    @name(".forward")
    action forward(port_t port, bit<48> dst_mac) {
        found = true;
        egress_port = port;
        ethernet.src_addr = ethernet.dst_addr;
        ethernet.dst_addr = dst_mac;
    }

    @name(".drop")
    action drop() {
        found = false;
    }

    // Entry: 32 bits of key, 57 of action data.
    @name(".ipv4_host")
    table ipv4_host {
        key = { ipv4.dst_addr: exact @name("hdr.ipv4.dst_addr"); }
        actions = { forward; drop; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 8192;
    }

    // Entry: 32 bits of key with their mask, 57 of action data.
    @name(".ipv4_lpm")
    table ipv4_lpm {
        key = { ipv4.dst_addr: lpm @name("hdr.ipv4.dst_addr"); }
        actions = { forward; drop; }
        const default_action = drop();
        size = 4096;
    }

    apply {
        found = false;
        egress_port = 0;
        if (!ipv4_host.apply().hit) {
            ipv4_lpm.apply();
        }
    }
}

#endif
