// Entries in the program: constant ones, and ones to begin with.
#include <core.p4>
#include <v1model.p4>

header key_t { bit<8> fixed; bit<8> started; }
struct headers_t { key_t key; }
struct metadata_t { bit<1> unused; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.key); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets) hits;
    action to(bit<9> port) { standard.egress_spec = port; }
    action counted(bit<9> port) {
        standard.egress_spec = port;
        hits.count();
    }
    table fixed {
        key = { hdr.key.fixed: ternary; }
        actions = { counted; @defaultonly NoAction; }
        counters = hits;
        const default_action = NoAction;
        const entries = {
            0x12: counted(3);
            0x10 &&& 0xf0: counted(4);
            _: counted(5);
        }
    }
    table started {
        key = { hdr.key.started: ternary; }
        actions = { to; @defaultonly NoAction; }
        default_action = NoAction;
        size = 8;
        entries = {
            0x01: to(6);
            _: to(7);
        }
    }
    apply {
        fixed.apply();
        if (hdr.key.started != 0) { started.apply(); }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
