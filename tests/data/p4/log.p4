// log_msg, assert and assume.
#include <core.p4>
#include <v1model.p4>

header pair_t { bit<8> a; bit<128> b; }
struct headers_t { pair_t pair; }
struct metadata_t { bit<1> unused; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.pair); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 2;
        log_msg("start");
        log_msg("a is {}, b is {}.", { hdr.pair.a, hdr.pair.b });
        assert(hdr.pair.a != 9);
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { assume(hdr.pair.a != 8); }
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
