// A direct meter of packets: the entry's colour goes into the packet.
#include <core.p4>
#include <v1model.p4>

header pair_t { bit<8> key; bit<8> colour; }
struct headers_t { pair_t pair; }
struct metadata_t { bit<2> colour; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.pair); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_meter<bit<2>>(MeterType.packets) police;
    action mark() { police.read(meta.colour); }
    table policed {
        key = { hdr.pair.key: exact; }
        actions = { mark; NoAction; }
        meters = police;
    }
    apply {
        standard.egress_spec = 2;
        policed.apply();
        hdr.pair.colour = (bit<8>)meta.colour;
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
