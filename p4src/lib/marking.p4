// SIM priority marking (SIM 3.1): where a queue exceeds its threshold, packets of each session's
// top group on that link are marked, and no others. Session and rank come from the group's address,
// so the state is one rank for each session and port.
//
// The queue and its average are arguments: a target that hands its program a queue depth, or keeps
// one in a register, can use this.
#ifndef TIERCAST_MARKING_P4
#define TIERCAST_MARKING_P4

#include "../include/headers.p4"
#include "ipv4.p4"
#include "queue.p4"
#include "queue_average.p4"

control PriorityMarking(inout ipv4_t ipv4,
                        in port_t egress_port,
                        in queue_t queue,
                        in bit<32> threshold,    // packets, QUEUE_FRACTION_BITS fraction bits;
                                                 // marked when the average is above it
                        in bit<32> idle_us,      // as in link_was_idle
                        inout bit<32> average,   // of this port's queue, as in QueueAverage
                        out bool marked) {
    bool has_top_group = false;
    rank_t top_group_rank = 0;

    // rank: the highest with a subscriber behind this port
    @name(".set_top_group")
    action set_top_group(rank_t rank) {
        has_top_group = true;
        top_group_rank = rank;
    }

    // Entry: 24 bits of key, 3 of action data. One a port and session with a subscriber behind that
    // port.
    @name(".top_group")
    table top_group {
        key = {
            egress_port: exact @name("egress_port");
            ipv4.dst_addr[17:3]: exact @name("session");
        }
        actions = { set_top_group; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 16384;
    }

    QueueAverage() queue_average;
    Ipv4MarkCongestion() mark_congestion;

    apply {
        marked = false;
        bool was_idle = link_was_idle(queue, idle_us);
        // Every packet counts, not only those of sessions.
        queue_average.apply(queue.deq_depth, was_idle, average);

        if (average > threshold && ipv4.isValid() && markable(ipv4.ecn) &&
            ipv4.dst_addr[31:18] == GROUP_PREFIX) {
            top_group.apply();
            if (has_top_group && ipv4.dst_addr[2:0] == top_group_rank) {
                mark_congestion.apply(ipv4);
                marked = true;
            }
        }
    }
}

#endif
