// An action selector: the second byte chooses among a group's members.
#include <core.p4>
#include <v1model.p4>

header flow_t { bit<8> key; bit<8> flow; }
struct headers_t { flow_t flow; }
struct metadata_t { bit<1> unused; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.flow); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action forward(bit<9> port) { standard.egress_spec = port; }
    action drop() { mark_to_drop(standard); }
    action_selector(HashAlgorithm.identity, 8, 16) paths;
    table balance {
        key = { hdr.flow.key: exact; hdr.flow.flow: selector; }
        actions = { forward; drop; }
        implementation = paths;
    }
    apply { balance.apply(); }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
