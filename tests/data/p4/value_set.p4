// A parser value set on two fields: packets whose fields are in it leave by port 3.
#include <core.p4>
#include <v1model.p4>

header pair_t { bit<4> small; bit<12> large; }
struct headers_t { pair_t pair; }
struct metadata_t { bit<9> port; }
struct known_t { bit<4> small; bit<12> large; }
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    value_set<known_t>(4) known;
    state start {
        packet.extract(hdr.pair);
        transition select(hdr.pair.small, hdr.pair.large) { known: in_set; default: out_of_set; }
    }
    state in_set { meta.port = 3; transition accept; }
    state out_of_set { meta.port = 2; transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { standard.egress_spec = meta.port; }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
