// A program of one's own: routes, multicast, IGMP to the controller, and a step marking of its own:
// an ECT packet that has waited longer than its port's target leaves with CE.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<8> version_ihl; bit<6> dscp; bit<2> ecn; bit<16> len; bit<16> id; bit<16> frag;
    bit<8> ttl; bit<8> proto; bit<16> sum; bit<32> src; bit<32> dst;
}
@controller_header("packet_in") header to_cpu_t { bit<9> port; bit<7> pad; }
struct headers_t { to_cpu_t to_cpu; ethernet_t eth; ipv4_t ip; }
struct meta_t { bit<32> target_us; }

parser Parse(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t std) {
    state start {
        p.extract(h.eth);
        transition select(h.eth.type) { 0x800: ip; default: accept; }
    }
    state ip { p.extract(h.ip); transition accept; }
}
control Verify(inout headers_t h, inout meta_t m) { apply {} }

control Route(inout headers_t h, inout meta_t m, inout standard_metadata_t std) {
    action out_of(bit<9> port, bit<48> mac) { std.egress_spec = port; h.eth.dst = mac; }
    action spray(bit<16> set) { std.mcast_grp = set; }
    action drop() { mark_to_drop(std); }
    table hosts { key = { h.ip.dst: lpm; } actions = { out_of; drop; } default_action = drop(); }
    table groups {
        key = { h.ip.src: exact; h.ip.dst: exact; }
        actions = { spray; drop; }
        default_action = drop();
    }
    apply {
        if (!h.ip.isValid()) { drop(); return; }
        if (h.ip.proto == 2) {  // IGMP
            h.to_cpu = { std.ingress_port, 0 };
            h.to_cpu.setValid();
            std.egress_spec = 64;
            return;
        }
        if (h.ip.ttl < 2) { drop(); return; }
        h.ip.ttl = h.ip.ttl - 1;
        if (h.ip.dst[31:28] == 0xe) { groups.apply(); } else { hosts.apply(); }
    }
}

control Mark(inout headers_t h, inout meta_t m, inout standard_metadata_t std) {
    counter(128, CounterType.packets) left;    // by egress port
    counter(128, CounterType.packets) marked;
    action limit(bit<32> target_us) { m.target_us = target_us; }
    table ports { key = { std.egress_port: exact; } actions = { limit; NoAction; } default_action = NoAction(); }
    apply {
        if (std.mcast_grp != 0 && std.egress_port == std.ingress_port) { mark_to_drop(std); return; }
        left.count((bit<32>)std.egress_port);
        if (ports.apply().hit) {
            if (h.ip.ecn != 0 && h.ip.ecn != 3 && std.deq_timedelta > m.target_us) {
                h.ip.ecn = 3;
                marked.count((bit<32>)std.egress_port);
            }
        }
    }
}

control Sum(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(h.ip.isValid() && h.ip.version_ihl == 0x45, { h.ip.version_ihl, h.ip.dscp, h.ip.ecn, h.ip.len, h.ip.id,
            h.ip.frag, h.ip.ttl, h.ip.proto, h.ip.src, h.ip.dst }, h.ip.sum, HashAlgorithm.csum16);
    }
}
control Deparse(packet_out p, in headers_t h) { apply { p.emit(h.to_cpu); p.emit(h.eth); p.emit(h.ip); } }

V1Switch(Parse(), Verify(), Route(), Mark(), Sum(), Deparse()) main;
