// Every way of a packet into a queue, with a label in it that egress reads.
#include <core.p4>
#include <v1model.p4>

header label_t {
    bit<8> label;
    bit<8> change;  // not 0: at ingress it becomes the label
    bit<8> port;    // where it goes, if it goes to no group
    bit<8> group;
    bit<8> clone;   // not 0: the session of a clone made at ingress
    bit<8> order;   // ORDER_...
}

const bit<8> ORDER_DROP = 1;         // in egress, and so with label 255
const bit<8> ORDER_RESUBMIT = 2;     // once
const bit<8> ORDER_RECIRCULATE = 3;  // once
const bit<8> ORDER_CLONE = 4;        // in egress, to session 7

struct headers_t { label_t label; }
struct metadata_t { @field_list(1) bit<8> again; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.label);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (hdr.label.order == ORDER_RESUBMIT && meta.again == 0) {
            meta.again = 1;
            resubmit_preserving_field_list(1);
        }
        if (hdr.label.change != 0) {
            hdr.label.label = hdr.label.change;
        }
        standard.egress_spec = (bit<9>)hdr.label.port;
        standard.mcast_grp = (bit<16>)hdr.label.group;
        if (hdr.label.clone != 0) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.label.clone, 1);
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (hdr.label.order == ORDER_DROP || hdr.label.label == 255) {
            mark_to_drop(standard);
        }
        if (hdr.label.order == ORDER_RECIRCULATE && meta.again == 0) {
            meta.again = 1;
            recirculate_preserving_field_list(1);
        }
        if (hdr.label.order == ORDER_CLONE && standard.instance_type == 0) {
            clone_preserving_field_list(CloneType.E2E, 7, 1);
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.label); } }

V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
