// IGMP goes to the controller, which answers with replication groups and top groups; it is never
// forwarded.
//
// The message itself is not parsed: hosts send it with the Router Alert option (RFC 2236, 2),
// behind which a parser of fixed offsets cannot look, and only the controller needs it.
#ifndef TIERCAST_IGMP_P4
#define TIERCAST_IGMP_P4

#include "../include/headers.p4"

control IgmpToController(in ipv4_t ipv4, out bool punt) {
    apply {
        punt = ipv4.protocol == PROTOCOL_IGMP;
    }
}

#endif
