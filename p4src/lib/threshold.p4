// Two policies that look at the queue's length itself: marking above a threshold (as the step of
// RFC 8257, 3.1), and drop tail at a limit below the target's own.
#ifndef TIERCAST_THRESHOLD_P4
#define TIERCAST_THRESHOLD_P4

#include "../include/headers.p4"
#include "ipv4.p4"
#include "queue.p4"

control ThresholdMarking(inout ipv4_t ipv4, in queue_t queue, in bit<19> threshold,  // packets
                         out bool marked) {
    Ipv4MarkCongestion() mark_congestion;

    apply {
        marked = false;
        if (queue.enq_depth > threshold && ipv4.isValid() && markable(ipv4.ecn)) {
            mark_congestion.apply(ipv4);
            marked = true;
        }
    }
}

control DropTail(in queue_t queue, in bit<19> limit,  // packets that may wait
                 out bool dropped) {
    apply {
        dropped = queue.enq_depth >= limit;
    }
}

#endif
