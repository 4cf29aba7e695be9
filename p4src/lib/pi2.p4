// PI2 (De Schepper and others 2016): a PI controller whose probability p is squared for traffic
// that halves its rate at a loss, which makes the steps of p right at every rate, and is doubled
// for scalable traffic, which says so by ECT(1) (RFC 9331). Decided when a packet's service begins.
#ifndef TIERCAST_PI2_P4
#define TIERCAST_PI2_P4

#include "../include/headers.p4"
#include "ipv4.p4"
#include "pi.p4"
#include "queue.p4"

struct pi2_t {
    pi_t   pi;
    bit<1> ecn;  // ECT packets are marked where others are dropped
}

control Pi2(inout ipv4_t ipv4, in queue_t queue, in bit<32> idle_us, in pi2_t pi2,
            in bit<32> uniform,  // random, and independent of other_uniform
            in bit<32> other_uniform,
            inout pi_state_t state, out bool marked, out bool dropped) {
    PiUpdate() update;
    Ipv4MarkCongestion() mark_congestion;

    apply {
        bit<32> periods;
        update.apply(queue.arrival_us + queue.wait_us, queue.wait_us,
                     link_was_idle(queue, idle_us), pi2.pi, 0, 0, state, periods);

        bool is_ect = pi2.ecn == 1 && ipv4.isValid() && ect(ipv4.ecn);
        bool due;
        if (is_ect && ipv4.ecn == ECN_ECT_1) {
            due = uniform < state.probability |+| state.probability;
        } else {
            // Both are below p with probability p^2.
            due = uniform < state.probability && other_uniform < state.probability;
        }
        dropped = due && !is_ect;
        marked = due && is_ect && ipv4.ecn != ECN_CE;
        if (marked) {
            mark_congestion.apply(ipv4);
        }
    }
}

#endif
