// An IPv4 router with everything a control plane touches: exact and lpm tables, replication, direct
// and indirect counters, a register, the CPU port, clone sessions, checksums.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<7> pad; }
@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> pad; }
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> total_length; bit<16> id; bit<3> flags;
    bit<13> fragment; bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}

struct headers_t {
    packet_in_t to_cpu;
    packet_out_t from_cpu;
    ethernet_t ethernet;
    ipv4_t ipv4;
}
struct metadata_t { @field_list(1) bit<8> reason; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        transition select(standard.ingress_port) {
            CPU_PORT: from_cpu;
            default: ethernet;
        }
    }
    state from_cpu {
        packet.extract(hdr.from_cpu);
        transition ethernet;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: ipv4;
            0x8000 &&& 0xfff0: accept;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4, error.ParserInvalidArgument);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, hdr.ipv4.id,
              hdr.ipv4.flags, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src,
              hdr.ipv4.dst }, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets_and_bytes) route_hits;
    counter(16, CounterType.packets_and_bytes) by_port;
    register<bit<32>>(16) last_source;

    action drop() { mark_to_drop(standard); }
    action forward(bit<9> port, bit<48> mac) {
        standard.egress_spec = port;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    action replicate(bit<16> group) { standard.mcast_grp = group; }
    action copy_to(bit<32> session) {
        meta.reason = 7;
        clone_preserving_field_list(CloneType.I2E, session, 1);
    }

    table host {
        key = { hdr.ipv4.dst: exact; }
        actions = { forward; replicate; drop; NoAction; }
        default_action = NoAction();
        size = 1024;
    }
    table route {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        counters = route_hits;
        size = 8;
    }
    table mirror {
        key = { standard.ingress_port: exact; hdr.ipv4.protocol: exact; }
        actions = { copy_to; NoAction; }
        const default_action = NoAction();
    }

    apply {
        if (hdr.from_cpu.isValid()) {
            standard.egress_spec = hdr.from_cpu.egress_port;
            hdr.from_cpu.setInvalid();
            exit;
        }
        by_port.count((bit<32>)standard.ingress_port);
        if (!hdr.ipv4.isValid() || standard.parser_error != error.NoError) {
            standard.egress_spec = CPU_PORT;
        } else if (standard.checksum_error == 1 || hdr.ipv4.ttl <= 1) {
            drop();
        } else {
            last_source.write((bit<32>)standard.ingress_port, hdr.ipv4.src);
            mirror.apply();
            if (host.apply().miss) {
                route.apply();
            }
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_port == CPU_PORT) {
            hdr.to_cpu.setValid();
            hdr.to_cpu.ingress_port = standard.ingress_port;
            hdr.to_cpu.pad = 0;
        }
        if (standard.instance_type == 1) {
            hdr.ipv4.tos = meta.reason;
        }
        if (standard.instance_type == 5) {
            hdr.ipv4.id = standard.egress_rid;
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, hdr.ipv4.id,
              hdr.ipv4.flags, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src,
              hdr.ipv4.dst }, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.to_cpu);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
