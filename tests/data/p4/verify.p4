// verify() in the parser: the error that ended it reaches ingress.
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> value; }
struct headers_t { byte_t byte; }
struct metadata_t { bit<1> unused; }
error { TooBig }
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.byte);
        verify(hdr.byte.value != 0xff, error.TooBig);
        verify(hdr.byte.value != 0, error.NoMatch);
        transition accept;
    }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 2;
        if (standard.parser_error == error.TooBig) { standard.egress_spec = 3; }
        if (standard.parser_error == error.NoMatch) { standard.egress_spec = 4; }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
