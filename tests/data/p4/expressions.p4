// Computes on two numbers of each width and writes the results behind them.
#include <core.p4>
#include <v1model.p4>

header operands_t { bit<8> out_port; bit<8> a; bit<8> b; int<16> c; int<16> d; bit<64> e; bit<64> f;
                    bit<128> g; bit<128> h; }
header results_t {
    bit<8> sum; bit<8> difference; bit<8> product; bit<8> saturated_sum; bit<8> saturated_difference;
    bit<8> left; bit<8> right; bit<8> complement; bit<8> negated; bit<8> bits; bit<8> choice;
    bit<16> concatenated; bit<8> slice;
    int<16> signed_sum; int<16> signed_right; int<16> signed_saturated; bit<8> signed_less;
    bit<64> sum64; bit<64> product64; bit<8> less64;
    bit<128> sum128; bit<128> and128; bit<128> shifted128; bit<128> copy128; bit<8> less128;
    bit<128> widened;
}
struct headers_t { operands_t in1; results_t r; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.in1);
        transition select(packet.lookahead<bit<16>>(), hdr.in1.a) {
            (0xdead, _): accept;
            (_, 0x00 &&& 0x00): more;
        }
    }
    state more {
        packet.extract(hdr.r);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = (bit<9>)hdr.in1.out_port;
        if (hdr.r.isValid()) {
            hdr.r.sum = hdr.in1.a + hdr.in1.b;
            hdr.r.difference = hdr.in1.a - hdr.in1.b;
            hdr.r.product = hdr.in1.a * hdr.in1.b;
            hdr.r.saturated_sum = hdr.in1.a |+| hdr.in1.b;
            hdr.r.saturated_difference = hdr.in1.a |-| hdr.in1.b;
            hdr.r.left = hdr.in1.a << hdr.in1.b;
            hdr.r.right = hdr.in1.a >> hdr.in1.b;
            hdr.r.complement = ~hdr.in1.a;
            hdr.r.negated = -hdr.in1.a;
            hdr.r.bits = (hdr.in1.a & hdr.in1.b) | (hdr.in1.a ^ 0x0f);
            hdr.r.choice = (hdr.in1.a > hdr.in1.b && hdr.in1.a != 77) ? 8w1 : 8w2;
            hdr.r.concatenated = hdr.in1.a ++ hdr.in1.b;
            hdr.r.slice = (bit<8>)hdr.in1.a[6:3];
            hdr.r.signed_sum = hdr.in1.c + hdr.in1.d;
            hdr.r.signed_right = hdr.in1.c >> 2;
            hdr.r.signed_saturated = hdr.in1.c |+| hdr.in1.d;
            hdr.r.signed_less = hdr.in1.c < hdr.in1.d ? 8w1 : 8w0;
            hdr.r.sum64 = hdr.in1.e + hdr.in1.f;
            hdr.r.product64 = hdr.in1.e * hdr.in1.f;
            hdr.r.less64 = hdr.in1.e < hdr.in1.f ? 8w1 : 8w0;
            hdr.r.sum128 = hdr.in1.g + hdr.in1.h;
            hdr.r.and128 = hdr.in1.g & hdr.in1.h;
            hdr.r.shifted128 = hdr.in1.g >> 68;
            hdr.r.copy128 = hdr.in1.h;
            hdr.r.less128 = hdr.in1.g < hdr.in1.h ? 8w1 : 8w0;
            hdr.r.widened = (bit<128>)hdr.in1.e << 64;
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.in1); packet.emit(hdr.r); }
}
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
