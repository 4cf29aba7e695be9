// The proportional integral controller of a queue's delay that PIE (RFC 8033, 4.2) and PI2 (De
// Schepper and others 2016; RFC 9332, A.1) have in common. Once a period
//
//   p <- p + alpha (delay - target) + beta (delay - delay of the last period)
//
// The delay is the wait of the packet that departs first in the period, so p changes only while
// packets depart. A packet that finds the link idle makes up for the periods without any, in each
// of which p would have fallen by alpha target; after 256 of them p is 0.
//
// Fixed point: probabilities have 32 fraction bits. A change rounds by less than alpha and beta,
// which have 10 to 14 significant bits.
#ifndef TIERCAST_PI_P4
#define TIERCAST_PI_P4

const int PI_PERIOD_BITS = 14;             // a period is 2^14 us, 16.4 ms
const bit<32> PI_MAX_DELAY_US = 0x3ffff;   // 262 ms; longer ones count as that

// alpha and beta: probability for each us of delay, 32 fraction bits, below 2^14, so that no
// product exceeds 32 bits.
struct pi_t {
    bit<32> target_us;   // at most PI_MAX_DELAY_US
    bit<32> alpha;       // in a period
    bit<32> beta;
    bit<32> idle_fall;   // alpha target
}

struct pi_state_t {
    bit<32> probability;  // p
    bit<32> delay_us;     // of the last period
    bit<32> updated_us;   // when that began
}

// shift: steps of p are this many times halved.
control PiUpdate(in bit<32> departs_us,  // when the packet departs, modulo 2^32
                 in bit<32> wait_us, in bool was_idle, in pi_t pi, in bit<8> shift,
                 in bit<32> most,  // that p rises by at once
                 inout pi_state_t state,
                 out bool updated) {
    apply {
        bit<32> elapsed_us = departs_us - state.updated_us;
        bit<32> periods = elapsed_us >> PI_PERIOD_BITS;
        updated = periods != 0;
        if (updated) {
            state.updated_us = state.updated_us + (periods << PI_PERIOD_BITS);
            bit<32> delay_us = wait_us;
            if (delay_us > PI_MAX_DELAY_US) {
                delay_us = PI_MAX_DELAY_US;
            }
            bit<32> rise = 0;
            bit<32> fall = 0;
            if (was_idle) {
                fall = 0xffffffff;
                if (periods < 256) {
                    bit<32> part = periods * (pi.idle_fall >> 8);
                    if (part < 1 << 24) {
                        fall = part << 8;
                    }
                }
            } else if (delay_us > pi.target_us) {
                rise = (delay_us - pi.target_us) * pi.alpha;
            } else {
                fall = (pi.target_us - delay_us) * pi.alpha;
            }
            if (delay_us > state.delay_us) {
                rise = rise |+| (delay_us - state.delay_us) * pi.beta;
            } else {
                fall = fall |+| (state.delay_us - delay_us) * pi.beta;
            }
            state.delay_us = delay_us;

            if (rise > fall) {
                bit<32> step = (rise - fall) >> shift;
                if (step > most) {
                    step = most;
                }
                state.probability = state.probability |+| step;
            } else {
                state.probability = state.probability |-| ((fall - rise) >> shift);
            }
        }
    }
}

#endif
