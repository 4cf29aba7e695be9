// Ternary, lpm, range and optional keys; the largest priority wins.
#include <core.p4>
#include <v1model.p4>

header key_t { bit<8> low; bit<16> address; bit<8> any; bit<8> result; }
struct headers_t { key_t key; }
struct metadata_t { bit<1> unused; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.key); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action set(bit<8> result) { hdr.key.result = result; }
    table by_prefix { key = { hdr.key.address: lpm; } actions = { set; NoAction; } }
    table by_rule {
        key = { hdr.key.low: range; hdr.key.address: ternary; hdr.key.any: optional; }
        actions = { set; NoAction; }
    }
    apply {
        standard.egress_spec = 2;
        if (hdr.key.result == 0) { by_prefix.apply(); } else { by_rule.apply(); }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
