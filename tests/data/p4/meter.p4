// A meter of bytes, chosen by the packet's first byte: the colour replaces it; red packets are
// dropped.
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> value; }
struct headers_t { byte_t byte; }
struct metadata_t { bit<32> color; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.byte); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    meter(4, MeterType.bytes) policer;
    apply {
        standard.egress_spec = 2;
        policer.execute_meter((bit<32>)hdr.byte.value, meta.color);
        hdr.byte.value = (bit<8>)meta.color;
        if (meta.color == 2) { mark_to_drop(standard); }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.byte); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
