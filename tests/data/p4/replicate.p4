// Multicast and clones at ingress: each copy says its instance and type.
#include <core.p4>
#include <v1model.p4>

header copy_t { bit<8> group; bit<8> session; bit<8> instance; bit<8> type; }
struct headers_t { copy_t copy; }
struct metadata_t { @field_list(1) bit<8> kept; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.copy); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        meta.kept = 0x77;
        standard.mcast_grp = (bit<16>)hdr.copy.group;
        if (hdr.copy.group == 0) { standard.egress_spec = 4; }
        if (hdr.copy.session != 0) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.copy.session, 1);
        }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.copy.instance = (bit<8>)standard.egress_rid;
        hdr.copy.type = (bit<8>)standard.instance_type;
        if (standard.instance_type == 1) { hdr.copy.group = meta.kept; }
    }
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
