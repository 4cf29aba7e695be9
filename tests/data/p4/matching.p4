// A table of each match kind, one of them on 128 bits and one with constant entries.
#include <core.p4>
#include <v1model.p4>

header key_t { bit<8> which; bit<16> a; bit<16> b; bit<128> address; }
struct headers_t { key_t key; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.key); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action to(bit<9> port) { standard.egress_spec = port; }
    action widen(bit<128> address, bit<9> port) {
        hdr.key.address = address;
        standard.egress_spec = port;
    }
    action miss() { standard.egress_spec = 1; }
    table ternary_table {
        key = { hdr.key.a: ternary; hdr.key.b: ternary; }
        actions = { to; miss; }
        default_action = miss();
        size = 64;
    }
    table range_table {
        key = { hdr.key.a: range; hdr.key.b: exact; }
        actions = { to; miss; }
        default_action = miss();
    }
    table wide_exact {
        key = { hdr.key.address: exact; hdr.key.a: exact; }
        actions = { to; widen; miss; }
        default_action = miss();
    }
    table wide_lpm {
        key = { hdr.key.address: lpm; }
        actions = { to; miss; }
        default_action = miss();
    }
    table fixed {
        key = { hdr.key.a: lpm; }
        actions = { to; miss; }
        const default_action = miss();
        const entries = {
            0x1200 &&& 0xff00: to(4);
            0x1000 &&& 0xf000: to(3);
        }
    }
    apply {
        if (hdr.key.which == 0) { ternary_table.apply(); }
        else if (hdr.key.which == 1) { range_table.apply(); }
        else if (hdr.key.which == 2) { wide_exact.apply(); }
        else if (hdr.key.which == 3) { wide_lpm.apply(); }
        else { fixed.apply(); }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.key); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
