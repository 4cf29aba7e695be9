// Loops in a parser: one takes three states for each byte, one consumes nothing and ends by its
// count, and one never ends.
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> value; }
struct headers_t { byte_t command; byte_t count; }
struct metadata_t { bit<8> left; bit<8> passed; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.command);
        transition select(hdr.command.value) {
            0: padding;
            1: count;
            2: endless;
        }
    }
    state padding {
        transition select(hdr.command.value) { 0: kind; default: accept; }
    }
    state kind {
        transition select(packet.lookahead<bit<8>>()) { 0: pad; default: accept; }
    }
    state pad {
        packet.advance(8);
        transition padding;
    }
    state count {
        packet.extract(hdr.count);
        meta.left = hdr.count.value;
        meta.passed = 0;
        transition counting;
    }
    state counting {
        transition select(meta.left) { 0: accept; default: pass; }
    }
    state pass {
        meta.left = meta.left - 1;
        meta.passed = meta.passed + 1;
        transition counting;
    }
    state endless {
        transition select(hdr.command.value) { 0: accept; default: endless; }
    }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 2;
        if (hdr.count.isValid()) { hdr.count.value = meta.passed; }
        if (standard.parser_error == error.ParserInvalidArgument) { standard.egress_spec = 3; }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
