// A header stack: next, last, indices known at run time, push_front and pop_front.
#include <core.p4>
#include <v1model.p4>

header command_t { bit<8> command; bit<8> index; }
header label_t { bit<7> value; bit<1> bottom; }
struct headers_t { command_t command; label_t[3] labels; }
struct metadata_t { bit<8> unused; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.command); transition labels; }
    state labels {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.bottom) { 1: accept; default: labels; }
    }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 2;
        if (standard.parser_error == error.StackOutOfBounds) { standard.egress_spec = 3; }
        if (hdr.command.command == 1) {
            hdr.labels.push_front(1);
            hdr.labels[0].setValid();
            hdr.labels[0].value = 0x55;
            hdr.labels[0].bottom = 0;
        } else if (hdr.command.command == 2) {
            hdr.labels.pop_front(1);
        } else if (hdr.command.command == 3) {
            hdr.labels[hdr.command.index].value = hdr.labels[hdr.command.index].value + 1;
        }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
