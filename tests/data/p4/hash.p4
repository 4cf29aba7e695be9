// Every hash algorithm of v1model over the nine bytes of the packet: their published check values
// are those of "123456789".
#include <core.p4>
#include <v1model.p4>

header text_t { bit<72> text; }
header sums_t {
    bit<16> crc16; bit<32> crc32; bit<16> crc16_custom; bit<32> crc32_custom;
    bit<16> csum16; bit<16> xor16; bit<64> identity;
}
struct headers_t { text_t text; sums_t sums; }
struct metadata_t { bit<1> unused; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { packet.extract(hdr.text); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 2;
        hdr.sums.setValid();
        hash(hdr.sums.crc16, HashAlgorithm.crc16, 16w0, { hdr.text.text }, 32w0x10000);
        hash(hdr.sums.crc32, HashAlgorithm.crc32, 32w0, { hdr.text.text }, 64w0x100000000);
        hash(hdr.sums.crc16_custom, HashAlgorithm.crc16_custom, 16w0, { hdr.text.text }, 32w0x10000);
        hash(hdr.sums.crc32_custom, HashAlgorithm.crc32_custom, 32w0, { hdr.text.text },
             64w0x100000000);
        hash(hdr.sums.csum16, HashAlgorithm.csum16, 16w0, { hdr.text.text }, 32w0x10000);
        hash(hdr.sums.xor16, HashAlgorithm.xor16, 16w0, { hdr.text.text }, 32w0x10000);
        hash(hdr.sums.identity, HashAlgorithm.identity, 64w0, { hdr.text.text },
             64w0xffffffffffffffff);
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Update(), Deparse()) main;
