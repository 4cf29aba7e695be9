// Frames to headers and back.
//
// A frame that ends early keeps the headers read before that point, and the rest stays payload: the
// parser error itself is not looked at. What ends before the end of its IPv4 header has no valid
// hdr.ipv4 and is dropped (lib/ipv4.p4); what ends later is an IPv4 packet like any other. So are
// fragments and packets with options, whose UDP header is not at its place.
#ifndef TIERCAST_PARSER_P4
#define TIERCAST_PARSER_P4

#include "feedback_parser.p4"
#include "headers.p4"

parser TiercastParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard) {
    SimFeedbackParser() feedback;

    state start {
        transition select(standard.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.frag_offset,
                          hdr.ipv4.protocol) {
            (4, 5, 0, PROTOCOL_UDP): parse_udp;
            (4, 5, 0, PROTOCOL_TCP): parse_tcp;
            default: accept;
        }
    }

    state parse_tcp {
        meta.tcp_ports = packet.lookahead<bit<32>>();
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            TIERCAST_DATA_PORT: parse_tiercast;
            TIERCAST_FEEDBACK_PORT: parse_tiercast_feedback;
            default: accept;
        }
    }

    state parse_tiercast {
        packet.extract(hdr.tiercast);
        transition select(hdr.tiercast.version, hdr.tiercast.type, hdr.tiercast.scheme,
                          hdr.tiercast.header_length) {
            (TIERCAST_VERSION, TIERCAST_TYPE_DATA, TIERCAST_SCHEME_SIM, SIM_DATA_BYTES):
                parse_sim_data;
            default: accept;
        }
    }

    state parse_sim_data {
        packet.extract(hdr.sim_data);
        transition accept;
    }

    state parse_tiercast_feedback {
        packet.extract(hdr.tiercast);
        transition select(hdr.tiercast.version, hdr.tiercast.type, hdr.tiercast.scheme) {
            (TIERCAST_VERSION, TIERCAST_TYPE_FEEDBACK, TIERCAST_SCHEME_SIM): parse_sim_feedback;
            default: accept;
        }
    }

    state parse_sim_feedback {
        feedback.apply(packet, hdr.tiercast.header_length, hdr.sim_feedback, hdr.record_0,
                       hdr.record_1, hdr.record_2, hdr.record_3, hdr.record_4, hdr.record_5,
                       hdr.record_6, hdr.record_7, meta.feedback_parsed);
        transition accept;
    }
}

// Only headers without options: the parser does not read options (lib/ipv4.p4 says what that
// means).
control TiercastVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
                        { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn,
                          hdr.ipv4.total_len, hdr.ipv4.identification, hdr.ipv4.flags,
                          hdr.ipv4.frag_offset, hdr.ipv4.ttl, hdr.ipv4.protocol,
                          hdr.ipv4.src_addr, hdr.ipv4.dst_addr },
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

// Empty: whoever changes an IPv4 field adjusts the checksum there and then (lib/ipv4.p4).
control TiercastComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TiercastDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.tiercast);
        packet.emit(hdr.sim_data);
        packet.emit(hdr.sim_feedback);
        packet.emit(hdr.record_0);
        packet.emit(hdr.record_1);
        packet.emit(hdr.record_2);
        packet.emit(hdr.record_3);
        packet.emit(hdr.record_4);
        packet.emit(hdr.record_5);
        packet.emit(hdr.record_6);
        packet.emit(hdr.record_7);
    }
}

#endif
