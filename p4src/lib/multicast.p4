// Multicast: the replication group of an IPv4 group address. A group without an entry has no
// subscriber and is dropped.
#ifndef TIERCAST_MULTICAST_P4
#define TIERCAST_MULTICAST_P4

#include "../include/headers.p4"

control MulticastForwarding(in ipv4_t ipv4, out bool found, out bit<16> multicast_group) {
    // mgid: the target's replication group, 1..65535
    @name(".replicate")
    action replicate(bit<16> mgid) {
        found = true;
        multicast_group = mgid;
    }

    // Entry: 32 bits of key, 16 of action data. As many as groups with a subscriber behind this
    // switch.
    @name(".ipv4_multicast")
    table ipv4_multicast {
        key = { ipv4.dst_addr: exact @name("hdr.ipv4.dst_addr"); }
        actions = { replicate; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 8192;
    }

    apply {
        found = false;
        multicast_group = 0;
        ipv4_multicast.apply();
    }
}

#endif
