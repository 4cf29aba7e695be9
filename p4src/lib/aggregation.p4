// Feedback aggregation (SIM 3.1): between a session's receivers and its sender, each aggregator
// makes one feedback message of those of its children, so that the sender hears from few.
//
//   a data packet with a larger request number empties the cache and starts a round;
//   feedback for that number goes into the cache (lib/group_cache.p4);
//   when every child has answered, or two maximum round-trip times have passed, what the cache
//   holds leaves as one message (lib/summary.p4). Later feedback is counted, and not merged.
//
// There is no timer: the session's own data packets look at the clock.
//
// Each control here is one step of a packet through the switch, with the cells of one index of the
// arrays that this step needs as its inout arguments. A packet passes the steps once and in the
// order of this file, and no step needs a cell of a later one: so each array is read, modified and
// written at one place, once for each packet, and the steps can be stages of a pipeline without
// feedback. The arrays are the program's.
//
// Times are microseconds modulo 2^32 of the switch's clock; only differences are used.
#ifndef TIERCAST_AGGREGATION_P4
#define TIERCAST_AGGREGATION_P4

#include "../include/headers.p4"

const bit<32> SESSION_SLOTS = 256;  // sessions that one switch can aggregate
const bit<32> CHILD_CELLS = 64;     // of each session: children that can be known at a time
const bit<32> REQUEST_CELLS = 8;    // of each session: requests whose time is remembered

const bit<32> MAX_REQUESTS_BEHIND = 1024;  // further behind: the sender has started anew
const bit<32> SILENT_ROUNDS = 8;           // after which a child is forgotten

// Bounds of a round-trip time: neither forged feedback nor a stall may keep a round from its end.
const bit<32> MIN_RTT_US = 100;
const bit<32> MAX_RTT_US = 2000000;

// The maximum round-trip time: microseconds with 8 fraction bits (2 s are below 2^29 units); it
// rises at once, and falls as an EWMA with weight 1/4. Each fall rounds up, by at most 3/4 unit;
// all of them add up to at most 3 units, or 0.012 us.
const int RTT_FRACTION_BITS = 8;
const int RTT_WEIGHT_SHIFT = 2;

// One packet's passage through the steps.
struct aggregation_t {
    // Of the session, from its entry in `aggregator`.
    bool    enabled;
    bit<8>  slot;           // where the session's cells stand
    bit<32> id;             // of this aggregator: the source of its summaries
    bit<32> address;        // IPv4 source of its summaries
    bit<32> parent;         // IPv4 destination of its summaries
    bit<48> mac;            // Ethernet source of its summaries
    port_t  upstream_port;  // towards the sender

    // What the packet is: at most one of these.
    bool is_data;      // of the session, from upstream
    bool is_feedback;  // of the session, from a child
    bool is_bye;       // a child that leaves
    bool is_carrier;   // a copy of a data packet, which is to become the summary

    bit<16> owner;       // the session, and a bit that says that there is one
    bit<32> now_us;
    bit<32> fb_req;      // of the packet
    bit<32> source;      // of the feedback
    bit<32> hold_us;     // of the feedback
    bit<32> below_us;    // round-trip time that the feedback reports from below its source
    bit<32> max_rtt_us;  // of the data: the sender's own estimate
    bit<6>  cell;        // of the child; of a data packet: the cell that it looks after

    // What the steps found out, in their order.
    bool    fresh;        // the slot belonged to another session
    bool    new_round;    // this data packet is the first with its request number
    bool    current;      // the packet has the request number of this round
    bool    stray;        // feedback for a number that was never seen
    bit<32> request;      // of this round
    bit<32> elapsed_us;   // since fb_req was first seen
    bool    timed;        // elapsed_us is known
    bit<32> rtt_us;       // sample from this feedback; 0: none
    bool    first_answer; // the child's first for this round, or from a child without a cell
    bool    unlisted;     // from a child without a cell
    bool    newcomer;     // from a child not known before
    bit<16> more;         // children: known now, and not before
    bit<16> fewer;        // children: known before, and no longer
    bit<16> answers;      // to be counted
    bit<16> withdrawn;    // answers not to be counted any more
    bool    complete;     // every child has answered
    bool    anyone;       // somebody has
    bool    orphaned;     // the last child has left
    bit<32> timeout_us;   // two maximum round-trip times
    bit<32> subtree_rtt_us;
    bool    send;         // the summary is to leave: this packet, or a copy of it, becomes it
    bool    merge;        // this feedback belongs into the cache
    bool    late;         // it would have, but the summary has left already
}

// Which packets concern the aggregator.
control AggregatorSession(in headers_t hdr, in bool feedback_sound, in bool bye,
                          in bool replicated, in port_t ingress_port, inout aggregation_t a) {
    // slot: 0..SESSION_SLOTS-1, one for each session
    @name(".aggregate")
    action aggregate(bit<8> slot, bit<32> id, bit<32> address, bit<32> parent, bit<48> mac,
                     port_t upstream_port) {
        a.enabled = true;
        a.slot = slot;
        a.id = id;
        a.address = address;
        a.parent = parent;
        a.mac = mac;
        a.upstream_port = upstream_port;
    }

    // Entry: 16 bits of key, 161 of action data. One for each session that is aggregated here; the
    // feedback of others is unicast like any other.
    @name(".aggregator")
    table aggregator {
        key = { hdr.tiercast.session: exact @name("session"); }
        actions = { aggregate; @defaultonly NoAction; }
        const default_action = NoAction();
        size = SESSION_SLOTS;
    }

    apply {
        if (aggregator.apply().hit) {
            a.owner = hdr.tiercast.session | 0x8000;
            if (hdr.sim_data.isValid()) {
                a.is_data = !a.is_carrier && replicated && ingress_port == a.upstream_port &&
                            hdr.ipv4.dst_addr[31:18] == GROUP_PREFIX &&
                            (bit<16>)hdr.ipv4.dst_addr[17:3] == hdr.tiercast.session;
                a.fb_req = hdr.sim_data.fb_req;
                a.max_rtt_us = hdr.sim_data.max_rtt_us;
                a.cell = hdr.sim_data.seq[5:0];  // one after the other
            } else {
                bool from_child = !replicated && ingress_port != a.upstream_port && feedback_sound;
                a.is_bye = from_child && bye;
                a.is_feedback = from_child && !a.is_bye;
                a.fb_req = hdr.sim_feedback.fb_req;
                a.source = hdr.sim_feedback.source;
                a.hold_us = hdr.sim_feedback.hold_us;
                a.below_us = hdr.sim_feedback.subtree_rtt_us;
                // Children's numbers mostly are near each other: folding keeps those apart.
                a.cell = a.source[5:0] ^ a.source[11:6] ^ a.source[17:12] ^ a.source[23:18] ^
                         a.source[29:24] ^ (bit<6>)a.source[31:30];
            }
        }
    }
}

// Step 1. owner: the session that has the slot, with the bit 0x8000; 0: none yet.
control SlotOwner(inout aggregation_t a, inout bit<16> owner) {
    apply {
        a.fresh = owner != a.owner;
        if (a.is_data) {
            owner = a.owner;
        }
    }
}

// Step 2. request: the number of this round. Serial comparison, where a number too far behind to be
// an old packet's comes from a sender that has started anew.
control RoundRequest(inout aggregation_t a, inout bit<32> request) {
    apply {
        bit<32> behind = request - a.fb_req;
        bool older = behind != 0 && behind <= MAX_REQUESTS_BEHIND;
        a.current = behind == 0 && !a.fresh;
        a.stray = a.fresh || (!a.current && !older);
        if (a.is_data && a.stray) {
            a.new_round = true;
            a.current = true;
            request = a.fb_req;
        }
        a.request = request;
    }
}

// Step 3. number, time_us: a request, and when it was first seen. The cell is fb_req modulo
// REQUEST_CELLS: a few requests are remembered, since late feedback still tells a round-trip time.
// That time is the one to and from the source of the feedback, without the time for which the
// source held it, and what that source says of those below it.
control RequestTime(inout aggregation_t a, inout bit<32> number, inout bit<32> time_us) {
    apply {
        if (a.new_round) {
            number = a.fb_req;
            time_us = a.now_us;
        }
        a.timed = !a.fresh && number == a.fb_req;
        a.elapsed_us = a.now_us - time_us;
        if (a.is_feedback && a.timed && !a.stray && a.hold_us <= a.elapsed_us) {
            a.rtt_us = (a.elapsed_us - a.hold_us) |+| a.below_us;
            if (a.rtt_us < MIN_RTT_US) {
                a.rtt_us = MIN_RTT_US;
            } else if (a.rtt_us > MAX_RTT_US) {
                a.rtt_us = MAX_RTT_US;
            }
        }
    }
}

// Step 4. A child: the session that it belongs to (as in SlotOwner; another one: the cell is
// empty), its number, and the last request that it answered. Feedback comes to the cell of its
// source, and each data packet looks after one cell, in turn: a child silent for long is forgotten.
//
// Two sources may want the same cell. The second one's feedback is merged too, but it cannot be
// waited for by name: rounds then last until their time is over.
control ChildCell(inout aggregation_t a, inout bit<16> owner, inout bit<32> source,
                  inout bit<32> answered) {
    apply {
        bool taken = owner == a.owner;
        bool same = taken && source == a.source;
        bool silent = taken && a.request - answered > SILENT_ROUNDS;
        if (a.is_data) {
            if (silent) {
                owner = 0;
                a.fewer = 1;
            }
        } else if (a.fresh || a.stray) {
            // Nobody asked.
        } else if (a.is_bye) {
            if (same) {
                owner = 0;
                a.fewer = 1;
                if (answered == a.request) {
                    a.withdrawn = 1;
                }
            }
        } else if (a.is_feedback && a.current) {
            if (same) {
                a.first_answer = answered != a.fb_req;
                answered = a.fb_req;
            } else if (!taken || silent) {
                a.first_answer = true;
                a.newcomer = true;
                if (!taken) {
                    a.more = 1;
                }
                owner = a.owner;
                source = a.source;
                answered = a.fb_req;
            } else {
                a.first_answer = true;
                a.unlisted = true;
            }
            if (a.first_answer && !a.unlisted) {
                a.answers = 1;
            }
        } else if (a.is_feedback && same) {
            // Too late for its round, but alive.
            bit<32> since = a.fb_req - answered;
            if (since <= MAX_REQUESTS_BEHIND) {
                answered = a.fb_req;
            }
        }
    }
}

// Step 5. children: known ones. answered: those that answered this round; strangers: feedback in
// this round from children without a cell. wait_until: the last request for which a round lasts
// until its time is over, because there may be children that nobody knows of: newcomers in this
// round (others may be on their way), strangers in the last SILENT_ROUNDS.
control RoundCounts(inout aggregation_t a, inout bit<16> children, inout bit<16> answered,
                    inout bit<16> strangers, inout bit<32> wait_until) {
    apply {
        if (a.new_round) {
            answered = 0;
            strangers = 0;
            if (a.fresh) {
                children = 0;
                wait_until = a.request;
            }
        }
        children = children + a.more - a.fewer;
        answered = answered + a.answers - a.withdrawn;
        if (a.unlisted) {
            strangers = strangers |+| 1;
            wait_until = a.request + SILENT_ROUNDS;
        }
        bool waiting = wait_until - a.request <= SILENT_ROUNDS;
        if (a.newcomer && !waiting) {
            wait_until = a.request;
            waiting = true;
        }
        a.anyone = answered != 0 || strangers != 0;
        a.complete = answered != 0 && answered == children && !waiting;
        a.orphaned = a.fewer == 1 && children == 0;
    }
}

// Step 6. largest_us: sample of this round so far, 0: none. average: the maximum round-trip time,
// RTT_FRACTION_BITS fraction bits, 0: no sample yet. SIM 3.4; updated when the next request opens
// its round, so that late feedback counts too. A sample above the average becomes the average:
// queues grow within a round or two, and whoever is not waited for then is the one that matters.
//
// Upstream goes the larger of the average and this round's sample: so the levels above learn of a
// growing queue in this round, and not each from the lagging average of the level below.
control MaxRtt(inout aggregation_t a, inout bit<32> largest_us, inout bit<32> average) {
    apply {
        bit<32> sample = largest_us;
        if (a.new_round) {
            bit<32> sample_units = sample << RTT_FRACTION_BITS;
            if (a.fresh) {
                average = 0;
            } else if (sample_units > average) {
                average = sample_units;
            } else if (sample != 0) {
                average = average - (average >> RTT_WEIGHT_SHIFT) +
                          (sample << (RTT_FRACTION_BITS - RTT_WEIGHT_SHIFT));
            }
            largest_us = 0;
        } else if (a.rtt_us > sample) {
            sample = a.rtt_us;
            largest_us = sample;
        }

        a.subtree_rtt_us = average >> RTT_FRACTION_BITS;
        // Without a sample, the sender's estimate for the whole session, which is no less.
        bit<32> estimate_us = a.max_rtt_us;
        if (average != 0) {
            estimate_us = a.subtree_rtt_us;
        }
        if (estimate_us > MAX_RTT_US) {
            estimate_us = MAX_RTT_US;
        }
        a.timeout_us = estimate_us << 1;
        if (sample > a.subtree_rtt_us) {
            a.subtree_rtt_us = sample;
        }
    }
}

// Step 7. sent: the last request whose summary has left. A round that nobody has answered when its
// time is over stays open.
control RoundEnd(inout aggregation_t a, inout bit<32> sent) {
    apply {
        if (a.new_round) {
            sent = a.request - 1;
        }
        bool open = sent != a.request;
        bool expired = a.is_data && a.timed && a.elapsed_us >= a.timeout_us && a.anyone;
        bool answer = a.is_feedback && a.first_answer;
        a.merge = answer && open;
        a.late = a.is_feedback && !a.stray && (!a.current || (a.first_answer && !open));
        if (a.is_carrier) {
            a.send = a.current;
        } else if (a.current && open && (expired || a.complete)) {
            a.send = true;
            sent = a.request;
        }
    }
}

#endif
