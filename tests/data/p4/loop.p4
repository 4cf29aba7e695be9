// A loop in an action: p4c gives a jump backwards.
#include <core.p4>
#include <v1model.p4>

header sum_t { bit<8> count; bit<16> sum; }
struct headers_t { sum_t sum; }
struct metadata_t { bit<1> unused; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.sum); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action add_up() {
        hdr.sum.sum = 0;
        for (bit<8> i = 0; i < hdr.sum.count; i = i + 1) { hdr.sum.sum = hdr.sum.sum + (bit<16>)i; }
    }
    apply {
        standard.egress_spec = 2;
        add_up();
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
