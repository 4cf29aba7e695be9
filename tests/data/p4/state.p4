// Counters and a register, direct and indexed by the packet.
#include <core.p4>
#include <v1model.p4>

header cell_t { bit<8> index; bit<8> value; }
struct headers_t { cell_t cell; }
struct metadata_t { bit<1> unused; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.cell); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(4, CounterType.packets_and_bytes) seen;
    direct_counter(CounterType.packets_and_bytes) hits;
    register<bit<8>>(4) last;
    action forward(bit<9> port) { standard.egress_spec = port; hits.count(); }
    table route {
        key = { hdr.cell.index: exact; }
        actions = { forward; NoAction; }
        counters = hits;
        default_action = NoAction();
    }
    apply {
        bit<8> before;
        seen.count((bit<32>)hdr.cell.index);
        last.read(before, (bit<32>)hdr.cell.index);
        last.write((bit<32>)hdr.cell.index, hdr.cell.value);
        hdr.cell.value = before;
        route.apply();
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
