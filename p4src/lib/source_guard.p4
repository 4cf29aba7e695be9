// A host's port sends from the host's own address alone (RFC 2827; RFC 7039). Ports without an entry
// lead to switches, which have checked already.
#ifndef TIERCAST_SOURCE_GUARD_P4
#define TIERCAST_SOURCE_GUARD_P4

#include "../include/headers.p4"

// from_host: the packet came in at a host's port.
control SourceGuard(in ipv4_t ipv4, in port_t ingress_port, out bool from_host,
                    out bool is_refused) {
    @name(".only_from")
    action only_from(bit<32> address) {
        from_host = true;
        is_refused = ipv4.src_addr != address;
    }

    // Entry: 9 bits of key, 32 of action data. As many as hosts at this switch.
    @name(".source_guard")
    table source_guard {
        key = { ingress_port: exact @name("ingress_port"); }
        actions = { only_from; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 512;
    }

    apply {
        from_host = false;
        is_refused = false;
        source_guard.apply();
    }
}

#endif
