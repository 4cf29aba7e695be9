// The feedback message in which an aggregator speaks for its subtree, and the check of those that
// it takes in. A summary is made of whatever packet is at hand: every header field is written anew,
// so that nothing of it names a receiver.
#ifndef TIERCAST_SUMMARY_P4
#define TIERCAST_SUMMARY_P4

#include "../include/headers.p4"
#include "aggregation.p4"
#include "ipv4.p4"

// What holds of all records of a message.
struct records_t {
    bool sound;
    bool of_one;   // none counts more than one receiver
    bool of_none;  // nor that one
}

control RecordCheck(in sim_record_t record, inout records_t all) {
    apply {
        if (record.isValid()) {
            all.sound = all.sound && record.reserved == 0 &&
                        record.congested <= record.reports && record.reports <= record.receivers &&
                        record.min_cum_rate <= record.max_cum_rate;
            all.of_one = all.of_one && record.receivers <= 1;
            all.of_none = all.of_none && record.receivers == 0;
        }
    }
}

// docs/wire-format.md, "What is rejected": as much of a message as the parser has not checked. From
// a host's port it speaks for one receiver, and nobody is below that.
control FeedbackCheck(in headers_t hdr, in bool parsed, in bool from_host, out bool sound,
                      out bool bye) {
    RecordCheck() record;

    apply {
        records_t all = { true, true, true };
        record.apply(hdr.record_0, all);
        record.apply(hdr.record_1, all);
        record.apply(hdr.record_2, all);
        record.apply(hdr.record_3, all);
        record.apply(hdr.record_4, all);
        record.apply(hdr.record_5, all);
        record.apply(hdr.record_6, all);
        record.apply(hdr.record_7, all);
        sound = parsed && hdr.tiercast.flags == 0 && hdr.tiercast.session[15:15] == 0 &&
                hdr.sim_feedback.reserved == 0 &&
                hdr.udp.length_ == UDP_BYTES + hdr.tiercast.header_length &&
                hdr.ipv4.total_len == IPV4_BYTES + hdr.udp.length_ && all.sound;
        if (from_host) {
            sound = sound && hdr.sim_feedback.record_count <= 1 &&
                    hdr.sim_feedback.subtree_rtt_us == 0 && all.of_one;
        }
        bye = hdr.sim_feedback.record_count == 1 && all.of_none;
    }
}

// records: how many record headers are valid, 0..8. frame_bytes: of the whole frame; the caller
// cuts off what follows.
control WriteSummary(inout headers_t hdr, in aggregation_t a, in bit<8> records,
                     out bit<32> frame_bytes) {
    Ipv4Checksum() ipv4_checksum;

    apply {
        hdr.sim_data.setInvalid();
        hdr.sim_feedback.setValid();
        hdr.sim_feedback.source = a.id;
        hdr.sim_feedback.fb_req = a.request;
        hdr.sim_feedback.hold_us = a.elapsed_us;
        hdr.sim_feedback.subtree_rtt_us = a.subtree_rtt_us;
        hdr.sim_feedback.record_count = records;
        hdr.sim_feedback.reserved = 0;

        bit<16> count = (bit<16>)records;
        bit<16> record_bytes = (count << 4) + (count << 3);  // 24 of each
        hdr.tiercast.type = TIERCAST_TYPE_FEEDBACK;
        hdr.tiercast.flags = 0;
        hdr.tiercast.header_length = SIM_FEEDBACK_BYTES + record_bytes;

        hdr.udp.src_port = TIERCAST_FEEDBACK_PORT;
        hdr.udp.dst_port = TIERCAST_FEEDBACK_PORT;
        hdr.udp.length_ = UDP_BYTES + hdr.tiercast.header_length;
        hdr.udp.checksum = 0;  // none (RFC 768)

        hdr.ipv4.dscp = 0;
        hdr.ipv4.ecn = ECN_NOT_ECT;
        hdr.ipv4.total_len = IPV4_BYTES + hdr.udp.length_;
        hdr.ipv4.identification = 0;
        hdr.ipv4.flags = 2;  // do not fragment
        hdr.ipv4.ttl = 64;
        hdr.ipv4.src_addr = a.address;
        hdr.ipv4.dst_addr = a.parent;
        ipv4_checksum.apply(hdr.ipv4);

        hdr.ethernet.dst_addr = a.mac;  // the source, once it is forwarded (lib/forwarding.p4)
        frame_bytes = ETHERNET_BYTES + (bit<32>)hdr.ipv4.total_len;
    }
}

#endif
