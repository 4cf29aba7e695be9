// Forwarding, marking and RED for PSA, the Portable Switch Architecture: the controls of lib/ as
// they stand, in another architecture's frame. Without the controller's packets, IGMP and feedback
// aggregation, which tiercast.p4 has.
//
// PSA hands a program neither a queue's depth nor the time at which a packet came to it. This shim
// reads the depth from the register queue_depth, which whoever knows it must keep up to date (a
// target's own extern in its place, or its control plane), and takes the times from the packet's
// timestamps: a wait is then the time from ingress to egress.
#include <core.p4>
#include <psa.p4>

#include "include/headers.p4"
#include "lib/codel.p4"
#include "lib/dualpi2.p4"
#include "lib/forwarding.p4"
#include "lib/ipv4.p4"
#include "lib/marking.p4"
#include "lib/multicast.p4"
#include "lib/pi2.p4"
#include "lib/pie.p4"
#include "lib/port_policy.p4"
#include "lib/queue.p4"
#include "lib/queue_class.p4"
#include "lib/red.p4"
#include "lib/source_guard.p4"
#include "lib/threshold.p4"

// What ingress tells egress, in front of the packet between the two.
header bridge_t {
    bit<32> arrival_us;  // modulo 2^32
    port_t  ingress_port;
    bit<7>  pad;
}

struct psa_headers_t {
    bridge_t   bridge;
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct nothing_t { }

// Of a packet in egress. Not local variables: p4c's PSA back end declares no storage for structs.
struct psa_metadata_t {
    port_policy_t   port;
    red_state_t     red;
    codel_state_t   codel;
    pi_state_t      pi;
    pie_state_t     pie;
    dualpi2_waits_t dualpi2;
}

// bmv2's psa_switch counts microseconds; elsewhere the unit is the target's.
bit<32> microseconds(in Timestamp_t time) {
    return ((TimestampUint_t)time)[31:0];
}

parser IpParser(packet_in packet, out ethernet_t ethernet, out ipv4_t ipv4) {
    state start {
        packet.extract(ethernet);
        transition select(ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(ipv4);
        transition accept;
    }
}

parser PsaIngressParser(packet_in packet, out psa_headers_t hdr, inout psa_metadata_t meta,
                        in psa_ingress_parser_input_metadata_t standard, in nothing_t resubmitted,
                        in nothing_t recirculated) {
    IpParser() ip;

    state start {
        ip.apply(packet, hdr.ethernet, hdr.ipv4);
        transition accept;
    }
}

control PsaIngress(inout psa_headers_t hdr, inout psa_metadata_t meta,
                   in psa_ingress_input_metadata_t standard,
                   inout psa_ingress_output_metadata_t out_standard) {
    Ipv4Hop() hop;
    QueueClass() queue_class;
    MulticastForwarding() groups;
    SourceGuard() source_guard;
    UnicastForwarding() unicast;

    apply {
        ingress_drop(out_standard);  // unless one of the following sends it
        hdr.bridge.setValid();
        hdr.bridge.arrival_us = microseconds(standard.ingress_timestamp);
        hdr.bridge.ingress_port = (port_t)(PortIdUint_t)standard.ingress_port;
        hdr.bridge.pad = 0;

        bool expired = true;
        // PSA has no length of the frame to hold the packet's against (lib/ipv4.p4).
        if (hdr.ipv4.isValid() && hdr.ipv4.version == 4 && hdr.ipv4.ihl >= 5) {
            hop.apply(hdr.ipv4, expired);
        }
        if (!expired) {
            bit<3> priority = 0;
            if (is_l4s(hdr.ipv4.ecn)) {
                queue_class.apply(hdr.ipv4, priority);
                out_standard.class_of_service =
                    (ClassOfService_t)(ClassOfServiceUint_t)(bit<8>)priority;
            }
            bool found = false;
            bit<16> group = 0;
            bool is_checked = false;
            bool is_refused = false;
            bool is_group = hdr.ipv4.dst_addr[31:28] == 14;  // 224.0.0.0/4
            if (is_group) {
                groups.apply(hdr.ipv4, hdr.bridge.ingress_port, found, group, is_checked,
                             is_refused);
            }
            if (!is_checked) {
                bool from_host;
                source_guard.apply(hdr.ipv4, hdr.bridge.ingress_port, from_host, is_refused);
            }
            if (is_refused) {
                // stays dropped
            } else if (is_group) {
                if (found) {
                    multicast(out_standard, (MulticastGroup_t)(MulticastGroupUint_t)group);
                }
            } else {
                port_t port;
                unicast.apply(hdr.ethernet, hdr.ipv4, found, port);
                if (found) {
                    send_to_port(out_standard, (PortId_t)(PortIdUint_t)port);
                }
            }
        }
    }
}

control PsaIngressDeparser(packet_out packet, out nothing_t cloned, out nothing_t resubmitted,
                           out nothing_t normal, inout psa_headers_t hdr, in psa_metadata_t meta,
                           in psa_ingress_output_metadata_t standard) {
    apply {
        packet.emit(hdr.bridge);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

parser PsaEgressParser(packet_in packet, out psa_headers_t hdr, inout psa_metadata_t meta,
                       in psa_egress_parser_input_metadata_t standard, in nothing_t normal,
                       in nothing_t cloned_ingress, in nothing_t cloned_egress) {
    IpParser() ip;

    state start {
        packet.extract(hdr.bridge);
        ip.apply(packet, hdr.ethernet, hdr.ipv4);
        transition accept;
    }
}

control PsaEgress(inout psa_headers_t hdr, inout psa_metadata_t meta,
                  in psa_egress_input_metadata_t standard,
                  inout psa_egress_output_metadata_t out_standard) {
    PortPolicy() port_policy;
    PriorityMarking() priority_marking;
    ThresholdMarking() threshold_marking;
    DropTail() drop_tail;
    Red() red;
    Codel() codel;
    Pie() pie;
    Pi2() pi2;
    DualPi2() dualpi2;

    // Packets that wait at each port now, as tiercast.p4's enq_depth and deq_depth both: the shim
    // knows one number only.
    @name(".queue_depth")
    Register<bit<32>, bit<32>>(PORTS) queue_depth;

    // As in tiercast.p4.
    @name(".avg_queue") Register<bit<32>, bit<32>>(PORTS) avg_queue;
    @name(".red_average") Register<bit<32>, bit<32>>(PORTS) red_average;
    @name(".red_departure_us") Register<bit<32>, bit<32>>(PORTS) red_departure_us;
    @name(".red_until_mark") Register<bit<32>, bit<32>>(PORTS) red_until_mark;
    @name(".codel_phase") Register<bit<8>, bit<32>>(PORTS) codel_phase;
    @name(".codel_first_above_us") Register<bit<32>, bit<32>>(PORTS) codel_first_above_us;
    @name(".codel_next_us") Register<bit<32>, bit<32>>(PORTS) codel_next_us;
    @name(".codel_count") Register<bit<16>, bit<32>>(PORTS) codel_count;
    @name(".codel_last_count") Register<bit<16>, bit<32>>(PORTS) codel_last_count;
    @name(".codel_inverse_sqrt") Register<bit<16>, bit<32>>(PORTS) codel_inverse_sqrt;
    @name(".pi_probability") Register<bit<32>, bit<32>>(PORTS) pi_probability;
    @name(".pi_delay_us") Register<bit<32>, bit<32>>(PORTS) pi_delay_us;
    @name(".pi_updated_us") Register<bit<32>, bit<32>>(PORTS) pi_updated_us;
    @name(".pie_burst_us") Register<bit<32>, bit<32>>(PORTS) pie_burst_us;
    @name(".pie_accumulated") Register<bit<32>, bit<32>>(PORTS) pie_accumulated;
    @name(".dualpi2_classic_us") Register<bit<32>, bit<32>>(PORTS) dualpi2_classic_us;
    @name(".dualpi2_l4s_us") Register<bit<32>, bit<32>>(PORTS) dualpi2_l4s_us;
    Random<bit<16>>(0, 0xffff) uniform;
    Random<bit<32>>(0, 0xffffffff) uniform_32;

    apply {
        port_t egress_port = (port_t)(PortIdUint_t)standard.egress_port;
        bit<32> port_index = (bit<32>)egress_port;
        if (hdr.ipv4.isValid() && hdr.ipv4.dst_addr[31:28] == 14 &&
            hdr.bridge.ingress_port == egress_port) {
            egress_drop(out_standard);
        } else {
            bit<19> depth = queue_depth.read(port_index)[18:0];
            queue_t queue = { depth, depth, hdr.bridge.arrival_us,
                              microseconds(standard.egress_timestamp) - hdr.bridge.arrival_us };
            bit<32> average = 0;
            bool is_marked = false;
            bool is_dropped = false;
            meta.port = { ... };
            port_policy.apply(egress_port, meta.port);
            if (meta.port.policy == Policy.PRIORITY) {
                average = avg_queue.read(port_index);
                priority_marking.apply(hdr.ipv4, egress_port, queue, meta.port.threshold,
                                       meta.port.idle_us, average, is_marked);
            } else if (meta.port.policy == Policy.THRESHOLD) {
                threshold_marking.apply(hdr.ipv4, queue, meta.port.limit, is_marked);
            } else if (meta.port.policy == Policy.DROP_TAIL) {
                drop_tail.apply(queue, meta.port.limit, is_dropped);
            } else if (meta.port.policy == Policy.RED) {
                meta.red.average = red_average.read(port_index);
                meta.red.departure_us = red_departure_us.read(port_index);
                meta.red.until_mark = red_until_mark.read(port_index);
                red.apply(hdr.ipv4, queue, meta.port.red, meta.port.limit, meta.port.idle_us,
                          uniform.read(), meta.red, is_marked, is_dropped);
                red_average.write(port_index, meta.red.average);
                red_departure_us.write(port_index, meta.red.departure_us);
                red_until_mark.write(port_index, meta.red.until_mark);
                average = meta.red.average >> (RED_FRACTION_BITS - QUEUE_FRACTION_BITS);
            } else if (meta.port.policy == Policy.CODEL) {
                meta.codel.phase = (CodelPhase)codel_phase.read(port_index);
                meta.codel.first_above_us = codel_first_above_us.read(port_index);
                meta.codel.next_us = codel_next_us.read(port_index);
                meta.codel.count = codel_count.read(port_index);
                meta.codel.last_count = codel_last_count.read(port_index);
                meta.codel.inverse_sqrt = codel_inverse_sqrt.read(port_index);
                codel.apply(hdr.ipv4, queue, meta.port.codel, microseconds(standard.egress_timestamp),
                            meta.codel, is_marked, is_dropped);
                codel_phase.write(port_index, (bit<8>)meta.codel.phase);
                codel_first_above_us.write(port_index, meta.codel.first_above_us);
                codel_next_us.write(port_index, meta.codel.next_us);
                codel_count.write(port_index, meta.codel.count);
                codel_last_count.write(port_index, meta.codel.last_count);
                codel_inverse_sqrt.write(port_index, meta.codel.inverse_sqrt);
            } else if (meta.port.policy == Policy.PIE || meta.port.policy == Policy.PI2 ||
                       meta.port.policy == Policy.DUALPI2) {
                meta.pi.probability = pi_probability.read(port_index);
                meta.pi.delay_us = pi_delay_us.read(port_index);
                meta.pi.updated_us = pi_updated_us.read(port_index);
                if (meta.port.policy == Policy.PIE) {
                    meta.pie.burst_us = pie_burst_us.read(port_index);
                    meta.pie.accumulated = pie_accumulated.read(port_index);
                    pie.apply(hdr.ipv4, queue, meta.port.idle_us, meta.port.pie, uniform_32.read(),
                              meta.pi, meta.pie, is_marked, is_dropped);
                    pie_burst_us.write(port_index, meta.pie.burst_us);
                    pie_accumulated.write(port_index, meta.pie.accumulated);
                } else if (meta.port.policy == Policy.PI2) {
                    pi2.apply(hdr.ipv4, queue, meta.port.idle_us, meta.port.pi2, uniform_32.read(),
                              uniform_32.read(), meta.pi, is_marked, is_dropped);
                } else {
                    meta.dualpi2.classic_us = dualpi2_classic_us.read(port_index);
                    meta.dualpi2.l4s_us = dualpi2_l4s_us.read(port_index);
                    dualpi2.apply(hdr.ipv4, queue, meta.port.idle_us, meta.port.dualpi2,
                                  uniform_32.read(), uniform_32.read(), meta.pi, meta.dualpi2,
                                  is_marked, is_dropped);
                    dualpi2_classic_us.write(port_index, meta.dualpi2.classic_us);
                    dualpi2_l4s_us.write(port_index, meta.dualpi2.l4s_us);
                }
                pi_probability.write(port_index, meta.pi.probability);
                pi_delay_us.write(port_index, meta.pi.delay_us);
                pi_updated_us.write(port_index, meta.pi.updated_us);
            }
            avg_queue.write(port_index, average);
            if (is_dropped) {
                egress_drop(out_standard);
            }
        }
    }
}

control PsaEgressDeparser(packet_out packet, out nothing_t cloned, out nothing_t recirculated,
                          inout psa_headers_t hdr, in psa_metadata_t meta,
                          in psa_egress_output_metadata_t standard,
                          in psa_egress_deparser_input_metadata_t standard_in) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

IngressPipeline(PsaIngressParser(), PsaIngress(), PsaIngressDeparser()) ingress;
EgressPipeline(PsaEgressParser(), PsaEgress(), PsaEgressDeparser()) egress;

PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
