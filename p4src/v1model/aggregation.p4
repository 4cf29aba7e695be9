// The aggregator's arrays in v1model's registers, and a packet's passage through the steps of
// lib/aggregation.p4. Cells are indexed by the session's slot; where a session has several, they
// stand side by side.
//
// A packet that takes none of the paths below touches none of these registers.
#ifndef TIERCAST_V1MODEL_AGGREGATION_P4
#define TIERCAST_V1MODEL_AGGREGATION_P4

#include <v1model.p4>

#include "../include/headers.p4"
#include "../lib/aggregation.p4"
#include "../lib/group_cache.p4"
#include "../lib/summary.p4"

const bit<32> CHILDREN_CELLS = SESSION_SLOTS * CHILD_CELLS;
const bit<32> REQUESTS_CELLS = SESSION_SLOTS * REQUEST_CELLS;

// One rank of all sessions.
control GroupCacheRegisters(in rank_t rank, in bit<32> slot, in aggregation_t a,
                            inout sim_record_t record, inout bit<8> records) {
    register<bit<32>>(SESSION_SLOTS) reports;
    register<bit<32>>(SESSION_SLOTS) congested;
    register<bit<32>>(SESSION_SLOTS) receivers;
    register<bit<32>>(SESSION_SLOTS) min_cum_rate;
    register<bit<32>>(SESSION_SLOTS) max_cum_rate;
    GroupCache() group_cache;

    apply {
        group_cache_t cache;
        reports.read(cache.reports, slot);
        congested.read(cache.congested, slot);
        receivers.read(cache.receivers, slot);
        min_cum_rate.read(cache.min_cum_rate, slot);
        max_cum_rate.read(cache.max_cum_rate, slot);
        group_cache.apply(a.new_round, a.merge, a.send, rank, cache, record, records);
        reports.write(slot, cache.reports);
        congested.write(slot, cache.congested);
        receivers.write(slot, cache.receivers);
        min_cum_rate.write(slot, cache.min_cum_rate);
        max_cum_rate.write(slot, cache.max_cum_rate);
    }
}

// taken: the packet is the aggregator's; it leaves as a summary if `summary`, and not otherwise.
// copy: the packet goes its way, and a copy of it is to come back as the carrier of the summary.
control Aggregation(inout headers_t hdr, in bool feedback_parsed, in bool from_host,
                    in bool replicated, in bool carrier, in port_t ingress_port, in bit<32> now_us,
                    out bool taken, out bool summary, out bool copy, out bit<32> frame_bytes) {
    AggregatorSession() session;
    FeedbackCheck() check;
    SlotOwner() slot_owner_step;
    RoundRequest() request_step;
    RequestTime() time_step;
    ChildCell() child_step;
    RoundCounts() counts_step;
    MaxRtt() rtt_step;
    RoundEnd() end_step;
    GroupCacheRegisters() group_0;
    GroupCacheRegisters() group_1;
    GroupCacheRegisters() group_2;
    GroupCacheRegisters() group_3;
    GroupCacheRegisters() group_4;
    GroupCacheRegisters() group_5;
    GroupCacheRegisters() group_6;
    GroupCacheRegisters() group_7;
    WriteSummary() write_summary;

    @name(".slot_owner") register<bit<16>>(SESSION_SLOTS) slot_owner;
    @name(".round_request") register<bit<32>>(SESSION_SLOTS) round_request;
    @name(".request_number") register<bit<32>>(REQUESTS_CELLS) request_number;
    @name(".request_time_us") register<bit<32>>(REQUESTS_CELLS) request_time_us;
    @name(".child_owner") register<bit<16>>(CHILDREN_CELLS) child_owner;
    @name(".child_source") register<bit<32>>(CHILDREN_CELLS) child_source;
    @name(".child_answered") register<bit<32>>(CHILDREN_CELLS) child_answered;
    @name(".round_children") register<bit<16>>(SESSION_SLOTS) round_children;
    @name(".round_answered") register<bit<16>>(SESSION_SLOTS) round_answered;
    @name(".round_strangers") register<bit<16>>(SESSION_SLOTS) round_strangers;
    @name(".round_wait_until") register<bit<32>>(SESSION_SLOTS) round_wait_until;
    @name(".rtt_largest_us") register<bit<32>>(SESSION_SLOTS) rtt_largest_us;
    @name(".rtt_max") register<bit<32>>(SESSION_SLOTS) rtt_max;
    @name(".round_sent") register<bit<32>>(SESSION_SLOTS) round_sent;

    // By slot: feedback that went into a summary; that came after it; that was none of these (sent
    // twice, for a request that was never made, or no valid message); summaries sent.
    @name(".feedback_merged") counter(SESSION_SLOTS, CounterType.packets) feedback_merged;
    @name(".feedback_late") counter(SESSION_SLOTS, CounterType.packets) feedback_late;
    @name(".feedback_refused") counter(SESSION_SLOTS, CounterType.packets) feedback_refused;
    @name(".summaries") counter(SESSION_SLOTS, CounterType.packets) summaries;

    apply {
        taken = false;
        summary = false;
        copy = false;
        frame_bytes = 0;

        if (hdr.sim_data.isValid() || hdr.sim_feedback.isValid()) {
            aggregation_t a = { ... };  // zeros
            a.is_carrier = carrier;
            a.now_us = now_us;
            bool sound = false;
            bool bye = false;
            if (hdr.sim_feedback.isValid()) {
                check.apply(hdr, feedback_parsed, from_host, sound, bye);
            }
            session.apply(hdr, sound, bye, replicated, ingress_port, a);

            if (a.enabled) {
                bit<32> slot = (bit<32>)a.slot;
                bool from_child = hdr.sim_feedback.isValid() && !replicated &&
                                  ingress_port != a.upstream_port;
                taken = from_child || carrier;
                if (from_child && !sound) {
                    feedback_refused.count(slot);
                }
                if (a.is_data || a.is_feedback || a.is_bye || carrier) {
                    bit<16> owner;
                    slot_owner.read(owner, slot);
                    slot_owner_step.apply(a, owner);
                    slot_owner.write(slot, owner);

                    bit<32> request;
                    round_request.read(request, slot);
                    request_step.apply(a, request);
                    round_request.write(slot, request);

                    bit<32> request_cell = (slot << 3) | (a.fb_req & (REQUEST_CELLS - 1));
                    bit<32> number;
                    bit<32> time_us;
                    request_number.read(number, request_cell);
                    request_time_us.read(time_us, request_cell);
                    time_step.apply(a, number, time_us);
                    request_number.write(request_cell, number);
                    request_time_us.write(request_cell, time_us);

                    bit<32> child_cell = (slot << 6) | (bit<32>)a.cell;
                    bit<16> child_of;
                    bit<32> source;
                    bit<32> last_answer;
                    child_owner.read(child_of, child_cell);
                    child_source.read(source, child_cell);
                    child_answered.read(last_answer, child_cell);
                    child_step.apply(a, child_of, source, last_answer);
                    child_owner.write(child_cell, child_of);
                    child_source.write(child_cell, source);
                    child_answered.write(child_cell, last_answer);

                    bit<16> children;
                    bit<16> answered;
                    bit<16> strangers;
                    bit<32> wait_until;
                    round_children.read(children, slot);
                    round_answered.read(answered, slot);
                    round_strangers.read(strangers, slot);
                    round_wait_until.read(wait_until, slot);
                    counts_step.apply(a, children, answered, strangers, wait_until);
                    round_children.write(slot, children);
                    round_answered.write(slot, answered);
                    round_strangers.write(slot, strangers);
                    round_wait_until.write(slot, wait_until);

                    bit<32> largest_us;
                    bit<32> average;
                    rtt_largest_us.read(largest_us, slot);
                    rtt_max.read(average, slot);
                    rtt_step.apply(a, largest_us, average);
                    rtt_largest_us.write(slot, largest_us);
                    rtt_max.write(slot, average);

                    bit<32> sent;
                    round_sent.read(sent, slot);
                    end_step.apply(a, sent);
                    round_sent.write(slot, sent);

                    copy = a.is_data && a.send;
                    if (copy) {
                        a.send = false;  // its copy does
                    }
                    bit<8> records = 0;
                    if (a.new_round || a.merge || a.send || a.orphaned) {
                        group_0.apply(0, slot, a, hdr.record_0, records);
                        group_1.apply(1, slot, a, hdr.record_1, records);
                        group_2.apply(2, slot, a, hdr.record_2, records);
                        group_3.apply(3, slot, a, hdr.record_3, records);
                        group_4.apply(4, slot, a, hdr.record_4, records);
                        group_5.apply(5, slot, a, hdr.record_5, records);
                        group_6.apply(6, slot, a, hdr.record_6, records);
                        group_7.apply(7, slot, a, hdr.record_7, records);
                    }
                    if (a.merge) {
                        feedback_merged.count(slot);
                    } else if (a.late) {
                        feedback_late.count(slot);
                    } else if (a.is_feedback) {
                        feedback_refused.count(slot);
                    }
                    if (a.is_bye && a.orphaned) {
                        records = 1;  // the child's BYE goes on in the aggregator's name
                        summary = true;
                    } else if (a.send) {
                        summary = true;
                        summaries.count(slot);
                    }
                    if (summary) {
                        write_summary.apply(hdr, a, records, frame_bytes);
                    }
                }
            }
        }
    }
}

#endif
