// A header union: at most one member is valid.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; }
header short_t { bit<8> value; }
header long_t { bit<24> value; }
header_union either_t { short_t short; long_t long; }
struct headers_t { kind_t kind; either_t either; }
struct metadata_t { bit<1> unused; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.kind);
        transition select(hdr.kind.kind) { 1: short; 2: long; default: accept; }
    }
    state short { packet.extract(hdr.either.short); transition accept; }
    state long { packet.extract(hdr.either.long); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 2;
        if (hdr.either.short.isValid()) {
            bit<24> wide = 16w0 ++ hdr.either.short.value;
            hdr.either.long.setValid();
            hdr.either.long.value = wide;
        } else if (hdr.either.long.isValid()) {
            bit<8> low = hdr.either.long.value[7:0];
            hdr.either.short.setValid();
            hdr.either.short.value = low;
        }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.kind); packet.emit(hdr.either); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
