// Multicast: the replication group of an IPv4 group address, and whence its packets may come. A group
// without an entry has no subscriber and is dropped.
#ifndef TIERCAST_MULTICAST_P4
#define TIERCAST_MULTICAST_P4

#include "../include/headers.p4"

// is_checked: the packet comes from the group's one source and through the port that leads to it,
// the reverse path forwarding check (RFC 7761, 4.2). is_refused: it does not.
control MulticastForwarding(in ipv4_t ipv4, in port_t ingress_port, out bool found,
                            out bit<16> multicast_group, out bool is_checked,
                            out bool is_refused) {
    bit<32> source = 0;
    port_t rpf_port = 0;
    port_t former_rpf_port = 0;

    // mgid: the target's replication group, 1..65535. Whoever sends.
    @name(".replicate")
    action replicate(bit<16> mgid) {
        found = true;
        multicast_group = mgid;
    }

    // former: the port that led to the source before its path moved, so that packets on their way
    // are not lost; else the same.
    @name(".replicate_from")
    action replicate_from(bit<16> mgid, bit<32> only_source, port_t port, port_t former) {
        found = true;
        is_checked = true;
        multicast_group = mgid;
        source = only_source;
        rpf_port = port;
        former_rpf_port = former;
    }

    // Entry: 32 bits of key, 66 of action data. As many as groups with a subscriber behind this
    // switch.
    @name(".ipv4_multicast")
    table ipv4_multicast {
        key = { ipv4.dst_addr: exact @name("hdr.ipv4.dst_addr"); }
        actions = { replicate; replicate_from; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 8192;
    }

    apply {
        found = false;
        is_checked = false;
        is_refused = false;
        multicast_group = 0;
        ipv4_multicast.apply();
        if (is_checked && (ipv4.src_addr != source || (ingress_port != rpf_port &&
                                                       ingress_port != former_rpf_port))) {
            found = false;
            is_refused = true;
        }
    }
}

#endif
