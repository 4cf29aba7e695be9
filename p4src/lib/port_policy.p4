// What is done about congestion at each port: one of the actions of port_marking.
#ifndef TIERCAST_PORT_POLICY_P4
#define TIERCAST_PORT_POLICY_P4

#include "../include/headers.p4"
#include "codel.p4"
#include "dualpi2.p4"
#include "pi2.p4"
#include "pie.p4"
#include "red.p4"

enum bit<8> Policy {
    NONE = 0,
    PRIORITY = 1,   // lib/marking.p4
    THRESHOLD = 2,  // lib/threshold.p4
    DROP_TAIL = 3,  // lib/threshold.p4
    RED = 4,        // lib/red.p4
    CODEL = 5,      // lib/codel.p4
    PIE = 6,        // lib/pie.p4
    PI2 = 7,        // lib/pi2.p4
    DUALPI2 = 8     // lib/dualpi2.p4
}

struct port_policy_t {
    Policy    policy;
    bit<32>   threshold;  // packets, QUEUE_FRACTION_BITS fraction bits
    bit<19>   limit;      // packets
    bit<32>   idle_us;    // as in link_was_idle
    red_t     red;
    codel_t   codel;
    pie_t     pie;
    pi2_t     pi2;
    dualpi2_t dualpi2;
}

control PortPolicy(in port_t egress_port, inout port_policy_t port) {
    // SIM: top groups are marked while the average queue is above the threshold (packets, 8
    // fraction bits).
    @name(".priority_marking")
    action priority_marking(bit<32> threshold, bit<32> idle_us) {
        port.policy = Policy.PRIORITY;
        port.threshold = threshold;
        port.idle_us = idle_us;
    }

    // Every ECT packet that found more than `threshold` packets waiting is marked.
    @name(".threshold_marking")
    action threshold_marking(bit<19> threshold) {
        port.policy = Policy.THRESHOLD;
        port.limit = threshold;
    }

    // A packet that found `limit` packets waiting is dropped.
    @name(".drop_tail")
    action drop_tail(bit<19> limit) {
        port.policy = Policy.DROP_TAIL;
        port.limit = limit;
    }

    // Parameters: red_t in lib/red.p4. limit: packets, as in drop_tail; 0: the target's own.
    @name(".red")
    action red(bit<32> min_th, bit<32> max_th, bit<32> slope, bit<32> max_p, bit<32> gentle_slope,
               bit<1> ecn, bit<1> mark_above_max, bit<1> wait, bit<19> limit, bit<32> idle_us,
               bit<32> transmission_us, bit<32> idle_rate, bit<32> idle_limit_us) {
        port.policy = Policy.RED;
        port.limit = limit;
        port.idle_us = idle_us;
        port.red.min_th = min_th;
        port.red.max_th = max_th;
        port.red.slope = slope;
        port.red.max_p = max_p;
        port.red.gentle_slope = gentle_slope;
        port.red.ecn = ecn;
        port.red.mark_above_max = mark_above_max;
        port.red.wait = wait;
        port.red.transmission_us = transmission_us;
        port.red.idle_rate = idle_rate;
        port.red.idle_limit_us = idle_limit_us;
    }

    // Parameters: codel_t in lib/codel.p4.
    @name(".codel")
    action codel(bit<32> target_us, bit<32> interval_us, bit<1> ecn) {
        port.policy = Policy.CODEL;
        port.codel.target_us = target_us;
        port.codel.interval_us = interval_us;
        port.codel.ecn = ecn;
    }

    // Parameters: pi_t in lib/pi.p4 and pie_t in lib/pie.p4; idle_us as in link_was_idle.
    @name(".pie")
    action pie(bit<32> target_us, bit<32> alpha, bit<32> beta, bit<32> idle_fall, bit<32> idle_us,
               bit<32> burst_us, bit<32> mark_below, bit<1> spread) {
        port.policy = Policy.PIE;
        port.idle_us = idle_us;
        port.pie.pi.target_us = target_us;
        port.pie.pi.alpha = alpha;
        port.pie.pi.beta = beta;
        port.pie.pi.idle_fall = idle_fall;
        port.pie.burst_us = burst_us;
        port.pie.mark_below = mark_below;
        port.pie.spread = spread;
    }

    // Parameters: pi_t in lib/pi.p4; idle_us as in link_was_idle; ecn: as in pi2_t.
    @name(".pi2")
    action pi2(bit<32> target_us, bit<32> alpha, bit<32> beta, bit<32> idle_fall, bit<32> idle_us,
               bit<1> ecn) {
        port.policy = Policy.PI2;
        port.idle_us = idle_us;
        port.pi2.pi.target_us = target_us;
        port.pi2.pi.alpha = alpha;
        port.pi2.pi.beta = beta;
        port.pi2.pi.idle_fall = idle_fall;
        port.pi2.ecn = ecn;
    }

    // Parameters: pi_t in lib/pi.p4 and dualpi2_t in lib/dualpi2.p4; idle_us as in link_was_idle.
    @name(".dualpi2")
    action dualpi2(bit<32> target_us, bit<32> alpha, bit<32> beta, bit<32> idle_fall,
                   bit<32> idle_us, bit<8> coupling, bit<32> overload, bit<32> ramp_us,
                   bit<32> ramp_end_us, bit<32> ramp_slope, bit<19> ramp_depth) {
        port.policy = Policy.DUALPI2;
        port.idle_us = idle_us;
        port.dualpi2.pi.target_us = target_us;
        port.dualpi2.pi.alpha = alpha;
        port.dualpi2.pi.beta = beta;
        port.dualpi2.pi.idle_fall = idle_fall;
        port.dualpi2.coupling = coupling;
        port.dualpi2.overload = overload;
        port.dualpi2.ramp_us = ramp_us;
        port.dualpi2.ramp_end_us = ramp_end_us;
        port.dualpi2.ramp_slope = ramp_slope;
        port.dualpi2.ramp_depth = ramp_depth;
    }

    // Drop tail at the target's own limit.
    @name(".no_marking")
    action no_marking() {
        port.policy = Policy.NONE;
    }

    // Entry: 9 bits of key, 315 of action data at most. One for each port.
    @name(".port_marking")
    table port_marking {
        key = { egress_port: exact @name("egress_port"); }
        actions = {
            priority_marking; no_marking; threshold_marking; drop_tail; red; codel; pie; pi2;
            dualpi2;
        }
        const default_action = no_marking();
        size = 512;
    }

    apply {
        port_marking.apply();
    }
}

#endif
