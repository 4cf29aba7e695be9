// RED's average queue (Floyd and Jacobson 1993, 4; ns-2 of the papers' time).
//
//   average <- (1 - w)^m average              where the link was idle for the time of m packets
//   average <- (1 - w) average + w depth,     w = 2^-9; depth: packets found waiting
//
// Fixed point: packets with RED_FRACTION_BITS fraction bits. Each update rounds up, by less than 1
// unit, of which (1 - w) is left at the next: in all at most 511 units, or 0.002 packet. Depths
// above 2^14 - 1 count as that, so nothing overflows.
#ifndef TIERCAST_RED_AVERAGE_P4
#define TIERCAST_RED_AVERAGE_P4

#include "queue.p4"
#include "red_idle_decay.p4"

const int RED_FRACTION_BITS = 18;
const int RED_WEIGHT_SHIFT = 9;
const bit<32> RED_MAX_DEPTH = 16383;
const int RED_IDLE_RATE_BITS = 19;  // fraction bits of idle_rate

control RedAverage(in queue_t queue, in bool was_idle, in bit<32> transmission_us,
                   in bit<32> idle_rate, in bit<32> idle_limit_us,
                   inout bit<32> average, inout bit<32> departure_us) {
    RedIdleDecay() decay;

    apply {
        if (was_idle) {
            bit<32> idle_us = (queue.arrival_us - departure_us) |-| transmission_us;
            if (idle_us >= idle_limit_us) {
                average = 0;
            } else {
                bit<32> packets = (idle_us * idle_rate) >> RED_IDLE_RATE_BITS;
                decay.apply(packets[15:0], average);
            }
        }
        departure_us = queue.arrival_us + queue.wait_us;

        bit<32> depth = (bit<32>)queue.enq_depth;
        if (depth > RED_MAX_DEPTH) {
            depth = RED_MAX_DEPTH;
        }
        average = average - (average >> RED_WEIGHT_SHIFT) +
                  (depth << (RED_FRACTION_BITS - RED_WEIGHT_SHIFT));
    }
}

#endif
