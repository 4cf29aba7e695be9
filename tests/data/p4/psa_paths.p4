// Every path of a packet through PSA. The packet says where it wants to go, and both pipelines write
// down what they were told.
#include <core.p4>
#include <psa.p4>

header order_t {
    bit<1> drop;
    bit<1> group;        // `to` is a multicast group
    bit<1> clone_in;     // in ingress
    bit<1> clone_out;    // in egress
    bit<1> resubmit;     // once
    bit<1> recirculate;  // once
    bit<1> drop_out;     // in egress
    bit<1> to_cpu;
    bit<8> to;       // port or multicast group
    bit<8> session;  // of the clones
    bit<8> service;  // class of service
}
header ingress_t { bit<8> path; bit<32> port; bit<8> parser_error; bit<8> resubmitted; }
header egress_t  { bit<8> path; bit<32> port; bit<16> instance; bit<8> service; bit<8> parser_error; }
struct headers_t { order_t order; ingress_t ingress; egress_t egress; }
struct metadata_t { bit<8> kept; }
struct nothing_t { }

bit<8> number(in PSA_PacketPath_t path) {
    bit<8> result = 0xff;
    if (path == PSA_PacketPath_t.NORMAL) { result = 0; }
    if (path == PSA_PacketPath_t.NORMAL_UNICAST) { result = 1; }
    if (path == PSA_PacketPath_t.NORMAL_MULTICAST) { result = 2; }
    if (path == PSA_PacketPath_t.CLONE_I2E) { result = 3; }
    if (path == PSA_PacketPath_t.CLONE_E2E) { result = 4; }
    if (path == PSA_PacketPath_t.RESUBMIT) { result = 5; }
    if (path == PSA_PacketPath_t.RECIRCULATE) { result = 6; }
    return result;
}

bit<8> code(in error e) {
    bit<8> result = 0xff;
    if (e == error.NoError) { result = 0; }
    if (e == error.PacketTooShort) { result = 1; }
    return result;
}

parser ParseIn(packet_in packet, out headers_t hdr, inout metadata_t meta,
               in psa_ingress_parser_input_metadata_t standard, in nothing_t resubmitted,
               in nothing_t recirculated) {
    state start {
        packet.extract(hdr.order);
        packet.extract(hdr.ingress);
        transition accept;
    }
}

control In(inout headers_t hdr, inout metadata_t meta, in psa_ingress_input_metadata_t standard,
           inout psa_ingress_output_metadata_t out_standard) {
    apply {
        bool first = standard.packet_path == PSA_PacketPath_t.NORMAL;
        hdr.ingress.path = number(standard.packet_path);
        hdr.ingress.port = (bit<32>)(PortIdUint_t)standard.ingress_port;
        hdr.ingress.parser_error = code(standard.parser_error);
        out_standard.class_of_service = (ClassOfService_t)hdr.order.service;
        if (hdr.order.clone_in == 1 && first) {
            out_standard.clone = true;
            out_standard.clone_session_id =
                (CloneSessionId_t)(CloneSessionIdUint_t)(bit<16>)hdr.order.session;
        }
        if (hdr.order.drop == 0) {
            PortId_t port = (PortId_t)(PortIdUint_t)(bit<32>)hdr.order.to;
            if (hdr.order.to_cpu == 1) {
                port = PSA_PORT_CPU;
            }
            if (hdr.order.recirculate == 1 && first) {
                port = PSA_PORT_RECIRCULATE;
            }
            if (hdr.order.group == 1) {
                multicast(out_standard,
                          (MulticastGroup_t)(MulticastGroupUint_t)(bit<32>)hdr.order.to);
            } else {
                send_to_port(out_standard, port);
            }
        }
        // A resubmitted packet is as it came: this is not seen again.
        if (hdr.order.resubmit == 1 && first) {
            out_standard.resubmit = true;
            hdr.ingress.resubmitted = 0x77;
        }
    }
}

control DeparseIn(packet_out packet, out nothing_t cloned, out nothing_t resubmitted,
                  out nothing_t normal, inout headers_t hdr, in metadata_t meta,
                  in psa_ingress_output_metadata_t standard) {
    apply {
        packet.emit(hdr.order);
        packet.emit(hdr.ingress);
    }
}

parser ParseOut(packet_in packet, out headers_t hdr, inout metadata_t meta,
                in psa_egress_parser_input_metadata_t standard, in nothing_t normal,
                in nothing_t cloned_in, in nothing_t cloned_out) {
    state start {
        packet.extract(hdr.order);
        packet.extract(hdr.ingress);
        transition select(standard.packet_path) {
            PSA_PacketPath_t.CLONE_E2E: parse_egress;
            default: accept;
        }
    }
    state parse_egress {
        packet.extract(hdr.egress);
        transition accept;
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, in psa_egress_input_metadata_t standard,
            inout psa_egress_output_metadata_t out_standard) {
    apply {
        hdr.egress.setValid();
        hdr.egress.path = number(standard.packet_path);
        hdr.egress.port = (bit<32>)(PortIdUint_t)standard.egress_port;
        hdr.egress.instance = (bit<16>)(EgressInstanceUint_t)standard.instance;
        hdr.egress.service = (bit<8>)(ClassOfServiceUint_t)standard.class_of_service;
        hdr.egress.parser_error = code(standard.parser_error);
        if (hdr.order.clone_out == 1 && standard.packet_path != PSA_PacketPath_t.CLONE_E2E) {
            out_standard.clone = true;
            out_standard.clone_session_id =
                (CloneSessionId_t)(CloneSessionIdUint_t)(bit<16>)hdr.order.session;
        }
        if (hdr.order.drop_out == 1 && standard.packet_path != PSA_PacketPath_t.CLONE_E2E) {
            egress_drop(out_standard);
        }
    }
}

control DeparseOut(packet_out packet, out nothing_t cloned, out nothing_t recirculated,
                   inout headers_t hdr, in metadata_t meta,
                   in psa_egress_output_metadata_t standard,
                   in psa_egress_deparser_input_metadata_t standard_in) {
    apply {
        packet.emit(hdr.order);
        packet.emit(hdr.ingress);
        // A packet that goes round comes back as it was.
        packet.emit(hdr.egress);
    }
}

IngressPipeline(ParseIn(), In(), DeparseIn()) ingress_pipeline;
EgressPipeline(ParseOut(), Out(), DeparseOut()) egress_pipeline;
PSA_Switch(ingress_pipeline, PacketReplicationEngine(), egress_pipeline,
           BufferingQueueingEngine()) main;
