// Gives a packet the priority that it asks for, and writes into it what its queue told.
#include <core.p4>
#include <v1model.p4>

header priority_t {
    bit<8>  label;
    bit<8>  priority;
    bit<8>  port;   // where it goes, if it goes to no group
    bit<8>  group;
    bit<8>  clone;  // not 0: the session of a clone made at ingress
    bit<8>  drop;   // not 0: in egress
    bit<32> enq_qdepth;
    bit<32> deq_qdepth;
}

struct headers_t { priority_t asked; }
struct metadata_t { @field_list(1) bit<8> nothing; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.asked);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = (bit<9>)hdr.asked.port;
        standard.mcast_grp = (bit<16>)hdr.asked.group;
        standard.priority = hdr.asked.priority[2:0];
        if (hdr.asked.clone != 0) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.asked.clone, 1);
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (hdr.asked.drop != 0 || hdr.asked.label == 255) {
            mark_to_drop(standard);
        }
        hdr.asked.enq_qdepth = (bit<32>)standard.enq_qdepth;
        hdr.asked.deq_qdepth = (bit<32>)standard.deq_qdepth;
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.asked); } }

V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
