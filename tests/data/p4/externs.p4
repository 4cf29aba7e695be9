// One extern of each kind that a controller programs. A packet's kind says which one it uses; what
// it says of the packet goes to `answer`.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header use_t { bit<8> kind; bit<8> key; bit<8> flow; bit<8> answer; }
struct headers_t { ethernet_t ethernet; use_t use; }
struct metadata_t { bit<2> colour; bit<1> known; }
struct learnt_t { bit<48> src; bit<8> flow; bit<9> port; }
struct range_t { @match(exact) bit<8> key; @match(ternary) bit<8> flow; }

const bit<8> BALANCE = 1;
const bit<8> LIMITED = 2;
const bit<8> INDIRECT = 3;
const bit<8> POLICE = 4;
const bit<8> MEASURE = 5;
const bit<8> LEARN = 6;
const bit<8> AGE = 7;

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    value_set<bit<16>>(4) types;
    value_set<range_t>(2) flows;
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            types: known;
            default: unknown;
        }
    }
    state known {
        meta.known = 1;
        transition unknown;
    }
    state unknown {
        packet.extract(hdr.use);
        transition select(hdr.use.key, hdr.use.flow) {
            flows: in_flows;
            default: accept;
        }
    }
    state in_flows { meta.known = 1; transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action forward(bit<9> port) { standard.egress_spec = port; }
    action drop() { mark_to_drop(standard); }
    action elsewhere() { hdr.use.answer = 255; }

    action_selector(HashAlgorithm.identity, 16, 16) paths;
    table balance {
        key = { hdr.use.key: exact; hdr.use.flow: selector; }
        actions = { forward; drop; }
        implementation = paths;
    }

    @max_group_size(4)
    action_selector(HashAlgorithm.identity, 16, 16) limited_paths;
    table limited {
        key = { hdr.use.key: exact; hdr.use.flow: selector; }
        actions = { forward; drop; }
        implementation = limited_paths;
    }

    action_profile(4) next_hops;
    table indirect {
        key = { hdr.use.key: exact; }
        actions = { forward; drop; }
        implementation = next_hops;
    }

    direct_meter<bit<2>>(MeterType.packets) police;
    action mark() { police.read(meta.colour); }
    table policed {
        key = { hdr.use.key: exact; }
        actions = { mark; NoAction; }
        meters = police;
        default_action = NoAction();
    }

    meter(4, MeterType.packets) cells;
    meter(2, MeterType.bytes) other_cells;

    direct_counter(CounterType.packets) seen;
    table aged {
        key = { hdr.use.key: exact; hdr.use.flow: ternary; }
        actions = { forward; drop; NoAction; }
        counters = seen;
        support_timeout = true;
        default_action = NoAction();
    }

    apply {
        standard.egress_spec = 2;
        hdr.use.answer = (bit<8>)meta.known;
        if (hdr.use.kind == BALANCE) {
            balance.apply();
        } else if (hdr.use.kind == LIMITED) {
            limited.apply();
        } else if (hdr.use.kind == INDIRECT) {
            indirect.apply();
        } else if (hdr.use.kind == POLICE) {
            policed.apply();
            hdr.use.answer = (bit<8>)meta.colour;
        } else if (hdr.use.kind == MEASURE) {
            cells.execute_meter((bit<32>)hdr.use.key, meta.colour);
            hdr.use.answer = (bit<8>)meta.colour;
            other_cells.execute_meter((bit<32>)hdr.use.key & 1, meta.colour);
        } else if (hdr.use.kind == LEARN) {
            digest<learnt_t>(1, { hdr.ethernet.src, hdr.use.flow, standard.ingress_port });
        } else if (hdr.use.kind == AGE) {
            aged.apply();
        } else if (hdr.use.kind == 255) {
            elsewhere();
        }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
