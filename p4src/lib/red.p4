// Random Early Detection (Floyd and Jacobson 1993) and its ECN variant (RFC 3168).
//
// Decided at departure, on the queue as it was at arrival. Packets leave a port in the order in
// which they came, so the averages are those that RED computes at arrivals; and a mark, or the gap
// that a drop leaves, reaches the receiver when it would with a decision at arrival. What differs:
// a packet that is dropped here has taken its place in the queue until then (but no time on the
// link), and packets that found the queue full and never entered it count neither for the average
// nor for the spacing of marks.
//
// No division: parameters come with the slopes that the controller has worked out.
#ifndef TIERCAST_RED_P4
#define TIERCAST_RED_P4

#include "../include/headers.p4"
#include "ipv4.p4"
#include "queue.p4"
#include "red_average.p4"

// As in ns-2, a packet that finds fewer waiting is spared, except by a full queue.
const bit<19> RED_MIN_WAITING = 2;

// Thresholds: packets, 8 fraction bits. Probabilities: 24 fraction bits; slopes: probability for
// each packet, 24 fraction bits. All of it below 2^24 and max_p below 1, so that no product exceeds
// 32 bits.
struct red_t {
    bit<32> min_th;
    bit<32> max_th;
    bit<32> slope;           // max_p / (max_th - min_th)
    bit<32> max_p;
    bit<32> gentle_slope;    // (1 - max_p) / max_th; 0: not gentle
    bit<1>  ecn;             // ECT packets are marked where others are dropped early
    bit<1>  mark_above_max;  // and also where the average is above all thresholds
    bit<1>  wait;            // marks are spaced by 1/p_b to 2/p_b packets, not by 1 to 1/p_b
    bit<32> transmission_us; // that the link needs for a typical packet
    bit<32> idle_rate;       // small packets that it could send: in 1 us, 19 fraction bits
    bit<32> idle_limit_us;   // after which the average is 0: at most 2^31 / idle_rate
}

struct red_state_t {
    bit<32> average;       // of the queue: packets, RED_FRACTION_BITS fraction bits
    bit<32> departure_us;  // of the last packet: one transmission before the link was free
    // What is left until the next mark: 24 fraction bits. A mark is due when the p_b of the packets
    // since the last one add up to R, random, which is drawn at each mark (Floyd and Jacobson 1993,
    // 7 and 11). With R uniform in (0, 1] and p_b constant, the packets from one mark to the next
    // are uniform on 1 .. 1/p_b: what p_a = p_b / (1 - count p_b) gives, count being the unmarked
    // ones since the last mark, without its division. With R in (1, 2]: ns-2's `wait`.
    bit<32> until_mark;
}

control Red(inout ipv4_t ipv4, in queue_t queue, in red_t red,
            in bit<19> limit,    // packets that may wait; 0: any
            in bit<32> idle_us,  // as in link_was_idle
            in bit<16> uniform,  // random
            inout red_state_t state, out bool marked, out bool dropped) {
    RedAverage() red_average;
    Ipv4MarkCongestion() mark_congestion;

    apply {
        bool was_idle = link_was_idle(queue, idle_us);
        red_average.apply(queue, was_idle, red.transmission_us, red.idle_rate, red.idle_limit_us,
                          state.average, state.departure_us);
        bit<32> average = state.average >> (RED_FRACTION_BITS - 8);
        bit<32> fresh = ((bit<32>)uniform + 1) << 8;
        if (red.wait == 1) {
            fresh = fresh + 0x1000000;
        }

        bool early = false;   // by chance
        bool forced = false;  // the average is above all thresholds
        bool full = limit != 0 && queue.enq_depth >= limit;
        bool by_chance = false;
        bit<32> p_b = 0;  // 24 fraction bits
        if (full || average < red.min_th || queue.enq_depth < RED_MIN_WAITING) {
            // Nothing to decide.
        } else if (average < red.max_th) {
            by_chance = true;
            p_b = ((average - red.min_th) * red.slope) >> 8;
        } else if (red.gentle_slope != 0 && average >> 1 < red.max_th) {
            by_chance = true;
            p_b = red.max_p + (((average - red.max_th) * red.gentle_slope) >> 8);
        } else {
            forced = true;
        }

        if (by_chance && state.until_mark > p_b) {
            state.until_mark = state.until_mark - p_b;
        } else {
            early = by_chance;
            state.until_mark = fresh;
        }

        bool mark = red.ecn == 1 && (early || (forced && red.mark_above_max == 1));
        mark = mark && ipv4.isValid() && ect(ipv4.ecn);
        dropped = full || ((early || forced) && !mark);
        if (dropped) {  // it takes no time on the link, which is idle from its departure on
            state.departure_us = state.departure_us - red.transmission_us;
        }
        marked = mark && ipv4.ecn != ECN_CE;
        if (marked) {
            mark_congestion.apply(ipv4);
        }
    }
}

#endif
