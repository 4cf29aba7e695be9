// PSA's extern objects: registers, counters, meters, hashes, random numbers, digests, checksums and
// an action profile.
#include <core.p4>
#include <psa.p4>

header text_t { bit<72> text; bit<8> index; bit<7> unused; bit<1> learn; }
header sums_t {
    bit<16> crc16; bit<32> crc32; bit<16> crc16_custom; bit<32> crc32_custom; bit<64> identity;
    bit<8> modulo; bit<8> padded; bit<8> random; bit<8> colour; bit<32> seen;
    bit<8> member;
}
header check_t {
    bit<32> one; bit<16> two; bit<16> sum; bit<16> less; bit<16> state; bit<8> verified;
}
struct headers_t { text_t text; check_t check; sums_t sums; }
struct metadata_t { bit<8> verified; }
struct nothing_t { }
struct learn_t { bit<8> index; bit<72> text; }

parser ParseIn(packet_in packet, out headers_t hdr, inout metadata_t meta,
               in psa_ingress_parser_input_metadata_t standard, in nothing_t resubmitted,
               in nothing_t recirculated) {
    InternetChecksum() received;

    state start {
        packet.extract(hdr.text);
        packet.extract(hdr.check);
        received.add({ hdr.check.one, hdr.check.two });
        verify(received.get() == hdr.check.sum, error.NoMatch);
        transition accept;
    }
}

control In(inout headers_t hdr, inout metadata_t meta, in psa_ingress_input_metadata_t standard,
           inout psa_ingress_output_metadata_t out_standard) {
    Register<bit<32>, bit<8>>(16) seen;
    Counter<bit<32>, bit<8>>(16, PSA_CounterType_t.PACKETS_AND_BYTES) counted;
    Meter<bit<8>>(16, PSA_MeterType_t.PACKETS) rate;
    Random<bit<8>>(8w3, 8w6) dice;
    Hash<bit<16>>(PSA_HashAlgorithm_t.CRC16) crc16;
    Hash<bit<32>>(PSA_HashAlgorithm_t.CRC32) crc32;
    Hash<bit<16>>(PSA_HashAlgorithm_t.CRC16_CUSTOM) crc16_custom;
    Hash<bit<32>>(PSA_HashAlgorithm_t.CRC32_CUSTOM) crc32_custom;
    Hash<bit<64>>(PSA_HashAlgorithm_t.IDENTITY) same;
    Hash<bit<8>>(PSA_HashAlgorithm_t.IDENTITY) short;
    ActionProfile(64) profile;
    Digest<learn_t>() learn;
    PSA_MeterColor_t colour = PSA_MeterColor_t.RED;

    action choose(bit<8> member) { hdr.sums.member = member; }
    table members {
        key = { hdr.text.index: exact @name("index"); }
        actions = { choose; NoAction; }
        psa_implementation = profile;
    }

    apply {
        send_to_port(out_standard, (PortId_t)2);
        hdr.sums.setValid();
        hdr.sums.crc16 = crc16.get_hash({ hdr.text.text });
        hdr.sums.crc32 = crc32.get_hash({ hdr.text.text });
        hdr.sums.crc16_custom = crc16_custom.get_hash({ hdr.text.text });
        hdr.sums.crc32_custom = crc32_custom.get_hash({ hdr.text.text });
        hdr.sums.identity = same.get_hash({ hdr.text.text });
        hdr.sums.modulo = short.get_hash(8w100, { hdr.text.index }, 8w7);
        // One bit is padded to a byte, with zeros before it.
        hdr.sums.padded = short.get_hash({ hdr.text.learn });
        hdr.sums.random = dice.read();
        colour = rate.execute(hdr.text.index);
        if (colour == PSA_MeterColor_t.GREEN) { hdr.sums.colour = 0x60; }
        if (colour == PSA_MeterColor_t.YELLOW) { hdr.sums.colour = 0x70; }
        counted.count(hdr.text.index);
        hdr.sums.seen = seen.read(hdr.text.index);
        seen.write(hdr.text.index, hdr.sums.seen + 1);
        members.apply();
        if (standard.parser_error == error.NoError) { hdr.check.verified = 1; }
        if (hdr.text.learn == 1) {
            learn.pack({ hdr.text.index, hdr.text.text });
        }
    }
}

control DeparseIn(packet_out packet, out nothing_t cloned, out nothing_t resubmitted,
                  out nothing_t normal, inout headers_t hdr, in metadata_t meta,
                  in psa_ingress_output_metadata_t standard) {
    InternetChecksum() made;

    apply {
        made.clear();
        made.add({ hdr.check.one, hdr.check.two });
        hdr.check.sum = made.get();
        hdr.check.state = made.get_state();
        made.subtract({ hdr.check.two });
        hdr.check.less = made.get();
        packet.emit(hdr.text);
        packet.emit(hdr.check);
        packet.emit(hdr.sums);
    }
}

parser ParseOut(packet_in packet, out headers_t hdr, inout metadata_t meta,
                in psa_egress_parser_input_metadata_t standard, in nothing_t normal,
                in nothing_t cloned_in, in nothing_t cloned_out) {
    state start { transition accept; }
}

control Out(inout headers_t hdr, inout metadata_t meta, in psa_egress_input_metadata_t standard,
            inout psa_egress_output_metadata_t out_standard) {
    apply { }
}

control DeparseOut(packet_out packet, out nothing_t cloned, out nothing_t recirculated,
                   inout headers_t hdr, in metadata_t meta,
                   in psa_egress_output_metadata_t standard,
                   in psa_egress_deparser_input_metadata_t standard_in) {
    apply { }
}

IngressPipeline(ParseIn(), In(), DeparseIn()) ingress_pipeline;
EgressPipeline(ParseOut(), Out(), DeparseOut()) egress_pipeline;
PSA_Switch(ingress_pipeline, PacketReplicationEngine(), egress_pipeline,
           BufferingQueueingEngine()) main;
