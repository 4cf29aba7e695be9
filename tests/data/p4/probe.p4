// Sends a packet where its first byte says, and writes into it what the traffic manager told.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>  out_port;  // 255: dropped in egress
    bit<8>  kind;      // 1: dropped in egress on port 2
    bit<32> enq_timestamp;
    bit<32> deq_timedelta;
    bit<32> enq_qdepth;
    bit<32> deq_qdepth;
    bit<48> ingress_us;
    bit<48> egress_us;
}

struct headers_t { probe_t probe; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { standard.egress_spec = (bit<9>)hdr.probe.out_port; }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (hdr.probe.kind == 1) {
            mark_to_drop(standard);
        }
        hdr.probe.enq_timestamp = standard.enq_timestamp;
        hdr.probe.deq_timedelta = standard.deq_timedelta;
        hdr.probe.enq_qdepth = (bit<32>)standard.enq_qdepth;
        hdr.probe.deq_qdepth = (bit<32>)standard.deq_qdepth;
        hdr.probe.ingress_us = standard.ingress_global_timestamp;
        hdr.probe.egress_us = standard.egress_global_timestamp;
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.probe); } }

V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
