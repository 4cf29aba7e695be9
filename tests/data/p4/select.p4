// Selects on a signed field wider than 64 bits, and on the last element of an empty stack.
#include <core.p4>
#include <v1model.p4>

header command_t { bit<8> command; }
header wide_t { int<128> value; }
header label_t { bit<8> value; }
struct headers_t { command_t command; wide_t wide; label_t[2] labels; }
struct metadata_t { bit<1> unused; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.command);
        transition select(hdr.command.command) { 0: wide; 1: label; default: last; }
    }
    state wide {
        packet.extract(hdr.wide);
        transition select(hdr.wide.value) { 5: accept; -2: accept; }
    }
    state label {
        packet.extract(hdr.labels.next);
        transition last;
    }
    state last {
        transition select(hdr.labels.last.value) { 0: accept; }
    }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 2;
        if (standard.parser_error == error.NoMatch) { standard.egress_spec = 3; }
        if (standard.parser_error == error.StackOutOfBounds) { standard.egress_spec = 4; }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
