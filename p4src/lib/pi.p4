// The proportional integral controller of a queue's delay that PIE (RFC 8033, 4.2) and PI2 (De
// Schepper and others 2016; RFC 9332, A.1) have in common. Once a period
//
//   p <- p + alpha (delay - target) + beta (delay - delay of the last period)
//
// The delay is the wait of the packet that departs first in the period, so p changes only while
// packets depart. That packet makes up for the periods without any, which a timer would have seen
// pass: on a busy link the delay stayed what it was, on an idle one it was 0. Together they move p by
// alpha (delay - target) each. After 256 of them p is 0 on an idle link; on a busy one they are
// none, since the port had another policy for so long.
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

// shift: steps of p are this many times halved. periods: that began since the last packet, mostly 0.
control PiUpdate(in bit<32> departs_us,  // when the packet departs, modulo 2^32
                 in bit<32> wait_us, in bool was_idle, in pi_t pi, in bit<8> shift,
                 in bit<32> most,  // that p rises by in a period, below 2^27; 0: any
                 inout pi_state_t state,
                 out bit<32> periods) {
    apply {
        bit<32> elapsed_us = departs_us - state.updated_us;
        periods = elapsed_us >> PI_PERIOD_BITS;
        if (periods != 0) {
            state.updated_us = state.updated_us + (periods << PI_PERIOD_BITS);
            bit<32> delay_us = wait_us;
            if (delay_us > PI_MAX_DELAY_US) {
                delay_us = PI_MAX_DELAY_US;
            }
            // What one of the missed periods did to p, and how many there were.
            bool missed_above = false;
            bit<32> each = pi.idle_fall;
            bit<32> missed = periods;
            bit<32> rise = 0;
            bit<32> fall = 0;
            if (!was_idle) {
                missed = periods - 1;
                missed_above = state.delay_us > pi.target_us;
                if (missed_above) {
                    each = (state.delay_us - pi.target_us) * pi.alpha;
                } else {
                    each = (pi.target_us - state.delay_us) * pi.alpha;
                }
                if (delay_us > pi.target_us) {
                    rise = (delay_us - pi.target_us) * pi.alpha;
                } else {
                    fall = (pi.target_us - delay_us) * pi.alpha;
                }
            }
            bit<32> all = 0xffffffff;
            if (!was_idle && missed >= 256) {
                all = 0;  // the port had another policy meanwhile
            } else if (missed < 256) {
                bit<32> part = missed * (each >> 8);
                if (part < 1 << 24) {
                    all = part << 8;
                }
            }
            if (missed_above) {
                rise = rise |+| all;
            } else {
                fall = fall |+| all;
            }
            if (delay_us > state.delay_us) {
                rise = rise |+| (delay_us - state.delay_us) * pi.beta;
            } else {
                fall = fall |+| (state.delay_us - delay_us) * pi.beta;
            }
            state.delay_us = delay_us;

            if (rise > fall) {
                bit<32> step = (rise - fall) >> shift;
                if (most != 0 && periods < 32) {
                    bit<32> bound = periods * most;
                    if (step > bound) {
                        step = bound;
                    }
                }
                state.probability = state.probability |+| step;
            } else {
                state.probability = state.probability |-| ((fall - rise) >> shift);
            }
        }
    }
}

#endif
