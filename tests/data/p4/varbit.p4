// A varbit field whose length the packet gives, and a look at the byte behind it before it is
// extracted.
#include <core.p4>
#include <v1model.p4>

header options_t { bit<8> length; varbit<64> data; }
header tail_t { bit<8> kind; bit<16> value; }
struct headers_t { options_t options; tail_t tail; }
struct metadata_t { bit<8> ahead; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.options, (bit<32>)packet.lookahead<bit<8>>() * 8);
        meta.ahead = packet.lookahead<bit<8>>();
        transition select(meta.ahead) { 7: tail; default: accept; }
    }
    state tail { packet.extract(hdr.tail); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 2;
        if (standard.parser_error == error.HeaderTooShort) { standard.egress_spec = 3; }
        if (hdr.tail.isValid()) { hdr.tail.value = hdr.tail.value ++ 8w0 >> 8 == 0 ? 16w1 : 16w2; }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
