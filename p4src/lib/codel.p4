// CoDel, Controlled Delay (RFC 8289); with `ecn`, ECT packets are marked where others are dropped.
//
// CoDel decides when a packet's service begins, by how long the packet waited, and that is when
// egress runs: nothing differs from the RFC. Where it drops several packets in a row, the next one
// is judged as soon as the link is free again, which is at once. Arithmetic as in Linux and ns-3:
// the inverse square root follows by one Newton step, so that nothing is divided.
#ifndef TIERCAST_CODEL_P4
#define TIERCAST_CODEL_P4

#include "../include/headers.p4"
#include "ipv4.p4"
#include "queue.p4"
#include "time.p4"

const bit<16> CODEL_ONE = 0xffff;  // the inverse square root of 1, 16 fraction bits

struct codel_t {
    bit<32> target_us;
    bit<32> interval_us;  // below 2^27
    bit<1>  ecn;
}

enum bit<8> CodelPhase {
    PASSING = 0,
    DROPPING = 1,  // a packet is dropped at next_us
    DROPPED = 2    // one was: next_us moves on if the packet behind it is late, too
}

struct codel_state_t {
    CodelPhase phase;
    bit<32>    first_above_us;  // once this is reached, waits have been too long for an interval;
                                // 0: the last was not
    bit<32>    next_us;
    bit<16>    count;           // drops since dropping began
    bit<16>    last_count;      // what count was then
    bit<16>    inverse_sqrt;    // 1 / sqrt(count), 16 fraction bits
}

// y <- y (3 - count y^2) / 2
bit<16> newton_step(in bit<16> inverse_sqrt, in bit<16> count) {
    bit<64> y = (bit<64>)inverse_sqrt;
    bit<64> rest = (64w3 << 32) - (bit<64>)count * y * y;
    return ((rest >> 2) * y)[46:31];
}

// interval / sqrt(count), in us
bit<32> codel_gap(in bit<32> interval_us, in bit<16> inverse_sqrt) {
    return ((bit<64>)interval_us * (bit<64>)inverse_sqrt)[47:16];
}

control Codel(inout ipv4_t ipv4, in queue_t queue, in codel_t codel,
              in bit<32> now_us,  // one clock for all packets: arrival and wait are each rounded
              inout codel_state_t state, out bool marked, out bool dropped) {
    Ipv4MarkCongestion() mark_congestion;

    apply {
        bool late = false;
        if (queue.wait_us < codel.target_us || queue.deq_depth <= 1) {
            state.first_above_us = 0;
        } else if (state.first_above_us == 0) {
            state.first_above_us = now_us + codel.interval_us;
            if (state.first_above_us == 0) {
                state.first_above_us = 1;
            }
        } else {
            late = reached(now_us, state.first_above_us);
        }

        bool mark = codel.ecn == 1 && ipv4.isValid() && ect(ipv4.ecn);
        bool due = false;
        if (!late) {
            state.phase = CodelPhase.PASSING;
        } else if (state.phase == CodelPhase.PASSING) {
            due = true;
            bit<16> drops = state.count - state.last_count;
            if (drops > 1 && !reached(now_us, state.next_us + (codel.interval_us << 4))) {
                // Not long ago this rate of drops kept the queue short.
                state.count = drops;
                state.inverse_sqrt = newton_step(state.inverse_sqrt, drops);
            } else {
                state.count = 1;
                state.inverse_sqrt = CODEL_ONE;
            }
            state.last_count = state.count;
            state.next_us = now_us + codel_gap(codel.interval_us, state.inverse_sqrt);
            state.phase = CodelPhase.DROPPING;
        } else {
            if (state.phase == CodelPhase.DROPPED) {
                state.next_us = state.next_us + codel_gap(codel.interval_us, state.inverse_sqrt);
                state.phase = CodelPhase.DROPPING;
            }
            if (reached(now_us, state.next_us)) {
                due = true;
                state.count = state.count |+| 1;
                state.inverse_sqrt = newton_step(state.inverse_sqrt, state.count);
                if (mark) {
                    state.next_us = state.next_us +
                                    codel_gap(codel.interval_us, state.inverse_sqrt);
                } else {
                    state.phase = CodelPhase.DROPPED;
                }
            }
        }

        dropped = due && !mark;
        marked = due && mark && ipv4.ecn != ECN_CE;
        if (marked) {
            mark_congestion.apply(ipv4);
        }
    }
}

#endif
