// What became of each packet, so that a port's accounts can be balanced: every packet that came in
// through a port has one fate at ingress, and every packet whose turn came at a port has one in
// egress.
//
// A counter of fates is a matrix: a row for each fate; at ingress a column for each port, in egress
// for each port and for each group at each port.
//
// Between the two is the queue, which may drop without a word to the program. So a third counter
// says what was handed to it, before replication: a cell for each port, of packets for this port
// alone, and one for each replication group. While a group's ports never change, what entered a
// port's queue is the port's cell and those of the groups that it belongs to.
#ifndef TIERCAST_FATES_P4
#define TIERCAST_FATES_P4

#include "../include/headers.p4"

enum bit<4> IngressFate {
    FORWARDED = 0,
    INVALID = 1,  // header, checksum or length (lib/ipv4.p4)
    EXPIRED = 2,  // no time to live was left
    NO_GROUP = 3,  // nobody subscribes to its group
    NO_ROUTE = 4,
    TO_CONTROLLER = 5,
    AGGREGATED = 6,  // feedback that an aggregator took, or refused
    FROM_CONTROLLER = 7,
    REFUSED = 8,  // not from where it claims to be (lib/source_guard.p4, lib/multicast.p4)
    POLICED = 9  // IGMP above its port's rate
}

enum bit<2> EgressFate {
    LEFT = 0,
    LEFT_MARKED = 1,  // marked at this port
    DROPPED = 2,  // by the port's policy
    PRUNED = 3  // a copy that would have left where it came in
}

const bit<32> INGRESS_FATES = 10;
const bit<32> EGRESS_FATES = 4;
const bit<32> EGRESS_COLUMNS = 33280;  // PORTS, and 32768 of groups
const bit<32> ENTERED_CELLS = 16896;  // PORTS, and replication groups below 16384

// The cells of the matrices.
bit<32> ingress_cell(in IngressFate fate, in port_t ingress_port) {
    return (bit<32>)(bit<4>)fate * PORTS + (bit<32>)ingress_port;
}

bit<32> egress_cell(in EgressFate fate, in bit<32> first_column, in port_t egress_port) {
    return (bit<32>)(bit<2>)fate * EGRESS_COLUMNS + first_column + (bit<32>)egress_port;
}

// The cells of what entered queues.
bit<32> entered_port_cell(in port_t egress_port) {
    return (bit<32>)egress_port;
}

bit<32> entered_group_cell(in bit<16> multicast_group) {
    return PORTS + (bit<32>)multicast_group;
}

// first_column: that of the packet's group at port 0; 0 where it has no group, or its group no
// columns.
control GroupColumns(in ipv4_t ipv4, inout bit<32> first_column) {
    // first: PORTS or more; the columns of the other ports follow it.
    @name(".set_columns")
    action set_columns(bit<32> first) {
        first_column = first;
    }

    // Entry: 32 bits of key, 32 of action data. As many as groups of all sessions.
    @name(".group_columns")
    table group_columns {
        key = { ipv4.dst_addr: exact @name("hdr.ipv4.dst_addr"); }
        actions = { set_columns; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 8192;
    }

    apply {
        group_columns.apply();
    }
}

#endif
