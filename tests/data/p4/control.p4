// A table of each kind, for what a controller may ask of them: the packets do not matter.
#include <core.p4>
#include <v1model.p4>

header bytes_t { bit<32> a; bit<16> b; bit<12> c; bit<4> d; }
@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<7> pad; }
@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> pad; }
struct headers_t { packet_in_t packet_in; packet_out_t packet_out; bytes_t bytes; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        transition select(standard.ingress_port) {
            510: from_controller;
            default: bytes;
        }
    }
    state from_controller { packet.extract(hdr.packet_out); transition bytes; }
    state bytes { packet.extract(hdr.bytes); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(16, CounterType.packets_and_bytes) cells;
    direct_counter(CounterType.packets_and_bytes) hits;
    register<bit<20>>(8) memory;

    action drop() { mark_to_drop(standard); }
    action send(bit<9> port, bit<12> c) { standard.egress_spec = port; hdr.bytes.c = c; }
    action count(bit<4> cell) { cells.count((bit<32>)cell); }
    action elsewhere() { hdr.bytes.d = 1; }

    table exact_one {
        key = { hdr.bytes.a: exact; hdr.bytes.c: exact; }
        actions = { send; drop; @tableonly count; @defaultonly NoAction; }
        default_action = NoAction();
        counters = hits;
        size = 4;
    }
    table prefix { key = { hdr.bytes.a: lpm; } actions = { send; drop; } }
    table ternary_one {
        key = { hdr.bytes.a: ternary; hdr.bytes.b: range; hdr.bytes.c: optional; hdr.bytes.d: exact; }
        actions = { send; drop; NoAction; }
        default_action = NoAction();
    }
    table fixed {
        key = { hdr.bytes.d: exact; }
        actions = { drop; NoAction; }
        const entries = { 1: drop(); 2: NoAction(); }
    }
    table fixed_default {
        key = { hdr.bytes.d: exact; }
        actions = { drop; NoAction; }
        const default_action = drop();
    }
    table keyless { actions = { send; drop; } default_action = drop(); }
    apply {
        if (hdr.packet_out.isValid()) {
            standard.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            exact_one.apply();
            prefix.apply();
            ternary_one.apply();
            fixed.apply();
            fixed_default.apply();
            keyless.apply();
            if (hdr.bytes.d == 15) { elsewhere(); }
            bit<20> value;
            memory.read(value, (bit<32>)hdr.bytes.d);
            memory.write((bit<32>)hdr.bytes.d, value + 1);
        }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_port == 510) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = standard.ingress_port;
        }
    }
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.packet_in); packet.emit(hdr.bytes); }
}
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
