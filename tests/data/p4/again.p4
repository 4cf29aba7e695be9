// Resubmission, recirculation and cloning out of egress, each asked for by a byte of the packet.
#include <core.p4>
#include <v1model.p4>

header step_t { bit<8> command; bit<8> rounds; bit<8> seen; bit<8> type; }
struct headers_t { step_t step; }
struct metadata_t { @field_list(1) bit<8> carried; bit<8> lost; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.step); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (hdr.step.command == 1 && meta.carried < hdr.step.rounds) {
            meta.carried = meta.carried + 1;
            meta.lost = meta.lost + 1;
            resubmit_preserving_field_list(1);
        }
        hdr.step.seen = (meta.carried << 4) | meta.lost;
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.step.type = (bit<8>)standard.instance_type;
        if (hdr.step.command == 2 && hdr.step.rounds > 0) {
            hdr.step.rounds = hdr.step.rounds - 1;
            meta.carried = meta.carried + 1;
            recirculate_preserving_field_list(1);
        }
        if (hdr.step.command == 3 && standard.instance_type == 0) {
            meta.carried = 9;
            clone_preserving_field_list(CloneType.E2E, 5, 1);
        }
        if (hdr.step.command == 3 && standard.instance_type == 2) {
            hdr.step.seen = meta.carried;
        }
        if (hdr.step.command == 4) { truncate(6); }
    }
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.step); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
