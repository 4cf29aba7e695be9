// A table whose entries report that no packet hit them.
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> value; }
struct headers_t { byte_t byte; }
struct metadata_t { bit<1> unused; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.byte); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action forward(bit<9> port) { standard.egress_spec = port; }
    table seen {
        key = { hdr.byte.value: exact; }
        actions = { forward; NoAction; }
        support_timeout = true;
    }
    apply { seen.apply(); }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
