// DualPI2, the coupled AQM of RFC 9332, appendix A: L4S packets (ECT(1) and CE) wait in a queue of
// their own (queue_class.p4), and one PI controller's probability p' rules both queues.
//
//   Classic   dropped, or if ECT(0) marked, with p_C = p'^2
//   L4S       marked with p_L = max(p'_L, p_CL): a ramp of the packet's own wait, and p_CL = k p'
//   overload  from k p' = 1 on (4.2.3): Classic is dropped even if ECT(0); L4S is dropped with p_C, and
//             what is left of it marked
//
// Decided when a packet's service begins, as in the RFC. Packets are chosen at random, as in PI2 and
// in Linux, where the RFC's example counts (`recur`).
#ifndef TIERCAST_DUALPI2_P4
#define TIERCAST_DUALPI2_P4

#include "../include/headers.p4"
#include "ipv4.p4"
#include "pi.p4"
#include "queue.p4"
#include "queue_class.p4"

const int COUPLING_FRACTION_BITS = 4;

// Probabilities with 32 fraction bits.
struct dualpi2_t {
    pi_t    pi;
    bit<8>  coupling;     // k, COUPLING_FRACTION_BITS fraction bits, at least 1
    bit<32> overload;     // p' from which on k p' is 1
    bit<32> ramp_us;      // wait from which on the ramp rises (minTh),
    bit<32> ramp_end_us;  // up to where it is 1 (maxTh)
    bit<32> ramp_slope;   // for each us; slope (end - ramp) is below 2^32
    bit<19> ramp_depth;   // the ramp spares packets that leave no more behind in their queue (Th_len)
}

// The wait of the last packet of each queue that departed since p' changed; 0: none has.
struct dualpi2_waits_t {
    bit<32> classic_us;
    bit<32> l4s_us;
}

// Native marking of L4S: p'_L (`laqm`).
bit<32> l4s_ramp(in queue_t queue, in dualpi2_t dualpi2) {
    bit<32> probability = 0;
    if (queue.deq_depth > dualpi2.ramp_depth) {
        if (queue.wait_us >= dualpi2.ramp_end_us) {
            probability = 0xffffffff;
        } else if (queue.wait_us > dualpi2.ramp_us) {
            probability = (queue.wait_us - dualpi2.ramp_us) * dualpi2.ramp_slope;
        }
    }
    return probability;
}

control DualPi2(inout ipv4_t ipv4,
                in queue_t queue,        // of the packet's own queue
                in bit<32> idle_us, in dualpi2_t dualpi2,
                in bit<32> uniform,      // random, and independent of other_uniform
                in bit<32> other_uniform,
                inout pi_state_t state, inout dualpi2_waits_t waits,
                out bool marked, out bool dropped) {
    PiUpdate() update;
    Ipv4MarkCongestion() mark_congestion;

    apply {
        bool l4s = ipv4.isValid() && is_l4s(ipv4.ecn);
        if (l4s) {
            waits.l4s_us = queue.wait_us;
        } else {
            waits.classic_us = queue.wait_us;
        }

        // p' follows the longer of the two queues' waits (A.2), and the waits of its last packets
        // are all that a program knows of the other queue.
        bool was_idle = link_was_idle(queue, idle_us);
        bit<32> longer_us = queue.wait_us;
        if (!was_idle) {
            longer_us = waits.classic_us;
            if (waits.l4s_us > waits.classic_us) {
                longer_us = waits.l4s_us;
            }
        }
        bit<32> periods;
        update.apply(queue.arrival_us + queue.wait_us, longer_us, was_idle, dualpi2.pi,
                     0, 0, state, periods);
        if (periods != 0) {
            waits.classic_us = 0;
            waits.l4s_us = 0;
        }

        bool overload = state.probability >= dualpi2.overload;
        // Both are below p' with probability p'^2.
        bool squared = uniform < state.probability && other_uniform < state.probability;
        bool mark = false;
        dropped = false;
        if (!l4s) {
            mark = squared && !overload && ipv4.isValid() && ect(ipv4.ecn);
            dropped = squared && !mark;
        } else if (overload) {
            dropped = squared;
            mark = !dropped;
        } else {
            bit<32> coupled = (state.probability >> COUPLING_FRACTION_BITS) *
                              (bit<32>)dualpi2.coupling;
            bit<32> ramp = l4s_ramp(queue, dualpi2);
            mark = uniform < coupled || uniform < ramp;
        }
        marked = mark && ipv4.ecn != ECN_CE;
        if (marked) {
            mark_congestion.apply(ipv4);
        }
    }
}

#endif
