// PIE (RFC 8033), decided when a packet's service begins instead of on arrival: a packet that is
// dropped has taken its place in the queue until then, but no time on the link. With `ecn`, ECT
// packets are marked where others are dropped, while the probability is low.
#ifndef TIERCAST_PIE_P4
#define TIERCAST_PIE_P4

#include "../include/headers.p4"
#include "ipv4.p4"
#include "pi.p4"
#include "queue.p4"

// Probabilities with 32 fraction bits.
const bit<32> PIE_SPARE_BELOW = 0x33333333;  // 0.2: with a short delay no packet is dropped
const bit<32> PIE_STEP_FROM = 0x1999999a;    // 0.1: from here on p rises by PIE_STEP at most
const bit<32> PIE_STEP = 0x051eb852;         // 0.02
// With so few waiting none is dropped: the RFC has two packets of mean size, in bytes.
const bit<19> PIE_MIN_WAITING = 2;
// Sums of probabilities, 28 fraction bits (RFC 8033, 5.4).
const bit<32> PIE_TOO_SOON = 0xd99999a;      // 0.85
const bit<32> PIE_OVERDUE = 0x88000000;      // 8.5

struct pie_t {
    pi_t    pi;
    bit<32> burst_us;   // that a queue may be long for after it was short
    bit<32> mark_below; // p up to which ECT packets are marked instead; 0: never
    bit<1>  spread;     // drops are neither bunched nor far apart (RFC 8033, 5.4)
}

struct pie_state_t {
    bit<32> burst_us;     // that is left
    bit<32> accumulated;  // sum of p since the last drop, 28 fraction bits
}

// Steps are the smaller, the smaller p is (RFC 8033, 4.2).
bit<8> pie_shift(in bit<32> p) {
    bit<8> shift = 0;
    if (p < 0x10c7) {             // 10^-6
        shift = 11;
    } else if (p < 0xa7c6) {      // 10^-5
        shift = 9;
    } else if (p < 0x68db9) {     // 10^-4
        shift = 7;
    } else if (p < 0x418937) {    // 10^-3
        shift = 5;
    } else if (p < 0x28f5c29) {   // 0.01
        shift = 3;
    } else if (p < PIE_STEP_FROM) {
        shift = 1;
    }
    return shift;
}

control Pie(inout ipv4_t ipv4, in queue_t queue, in bit<32> idle_us, in pie_t pie,
            in bit<32> uniform,  // random
            inout pi_state_t pi_state, inout pie_state_t state, out bool marked, out bool dropped) {
    PiUpdate() update;
    Ipv4MarkCongestion() mark_congestion;

    apply {
        bit<32> half_target_us = pie.pi.target_us >> 1;
        bool was_short = pi_state.delay_us < half_target_us;
        bool was_empty = pi_state.delay_us == 0;
        bit<32> most = 0;
        if (pi_state.probability >= PIE_STEP_FROM) {
            most = PIE_STEP;
        }
        bit<32> periods;
        update.apply(queue.arrival_us + queue.wait_us, queue.wait_us,
                     link_was_idle(queue, idle_us), pie.pi, pie_shift(pi_state.probability), most,
                     pi_state, periods);
        if (periods != 0) {
            if (was_empty && pi_state.delay_us == 0) {
                pi_state.probability = pi_state.probability - (pi_state.probability >> 6);
            }
            if (pi_state.probability == 0 && was_short && pi_state.delay_us < half_target_us) {
                state.burst_us = pie.burst_us;
            } else {
                state.burst_us = state.burst_us |-| (periods << PI_PERIOD_BITS);
            }
        }

        bool due = false;
        bool spared = pi_state.delay_us < half_target_us &&
                      pi_state.probability < PIE_SPARE_BELOW;
        if (state.burst_us == 0 && !spared && queue.enq_depth > PIE_MIN_WAITING) {
            state.accumulated = state.accumulated |+| (pi_state.probability >> 4);
            bool too_soon = pie.spread == 1 && state.accumulated < PIE_TOO_SOON;
            bool overdue = pie.spread == 1 && state.accumulated >= PIE_OVERDUE;
            due = !too_soon && (overdue || uniform < pi_state.probability);
            if (due) {
                state.accumulated = 0;
            }
        }

        bool mark = pi_state.probability < pie.mark_below && ipv4.isValid() && ect(ipv4.ecn);
        dropped = due && !mark;
        marked = due && mark && ipv4.ecn != ECN_CE;
        if (marked) {
            mark_congestion.apply(ipv4);
        }
    }
}

#endif
