// The tiercast switch for v1model: IPv4 unicast, multicast by replication groups, IGMP to the
// controller, SIM priority marking.
//
// lib/ holds the logic, in controls that use core.p4 alone. What belongs to v1model stands here:
// ports, replication, the queue's metadata, registers and counters.
#include <core.p4>
#include <v1model.p4>

#include "include/headers.p4"
#include "include/parser.p4"
#include "lib/codel.p4"
#include "lib/controller.p4"
#include "lib/dualpi2.p4"
#include "lib/equal_paths.p4"
#include "lib/fates.p4"
#include "lib/forwarding.p4"
#include "lib/igmp.p4"
#include "lib/ipv4.p4"
#include "lib/marking.p4"
#include "lib/multicast.p4"
#include "lib/pi2.p4"
#include "lib/pie.p4"
#include "lib/port_policy.p4"
#include "lib/queue_class.p4"
#include "lib/red.p4"
#include "lib/source_guard.p4"
#include "lib/threshold.p4"
#include "v1model/aggregation.p4"
#include "v1model/flow_hash.p4"

// The clone session of the copies that become summaries: the controller gives it one replica, on
// CPU_PORT, from whose egress they go to ingress again.
const bit<32> SUMMARY_SESSION = 1;
const bit<32> METER_GREEN = 0;
// standard_metadata.instance_type
const bit<32> NORMAL = 0;
const bit<32> INGRESS_CLONE = 1;

control TiercastIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard) {
    PacketOut() from_controller;
    Ipv4Validation() validation;
    IgmpToController() igmp;
    SourceGuard() source_guard;
    Ipv4Hop() hop;
    QueueClass() queue_class;
    MulticastForwarding() multicast;
    GroupColumns() group_columns;
    UnicastForwarding() unicast;
    FlowHash() flow_hash;
    EqualPaths() equal_paths;
    Aggregation() aggregation;

    // Packets by ingress port and fate (lib/fates.p4).
    @name(".ingress_fates")
    counter(PORTS * INGRESS_FATES, CounterType.packets) ingress_fates;

    // Packets handed to queues, by port or replication group (lib/fates.p4).
    @name(".entered")
    counter(ENTERED_CELLS, CounterType.packets) entered;

    // IGMP of each port. Green: it goes to the controller. A port without a configuration is green.
    @name(".igmp_meter")
    meter(PORTS, MeterType.packets) igmp_meter;

    action count(in IngressFate fate) {
        ingress_fates.count(ingress_cell(fate, standard.ingress_port));
    }

    action send(in port_t port) {
        standard.egress_spec = port;
        entered.count(entered_port_cell(port));
    }

    apply {
        mark_to_drop(standard);  // unless one of the following sends it

        bool found;
        port_t port;
        bool from_host = false;
        if (!meta.carries_summary) {
            bool sent;
            from_controller.apply(hdr, sent, port);
            if (sent) {
                send(port);
                count(IngressFate.FROM_CONTROLLER);
                exit;
            }

            bool valid;
            validation.apply(hdr.ethernet, hdr.ipv4, standard.packet_length,
                             standard.checksum_error == 1, valid);
            if (!valid) {
                count(IngressFate.INVALID);
                exit;
            }

            bool punt;
            igmp.apply(hdr.ipv4, punt);
            bool is_checked = false;
            bool is_refused = false;
            if (!punt) {
                bool expired;
                hop.apply(hdr.ipv4, expired);
                if (expired) {
                    count(IngressFate.EXPIRED);
                    exit;
                }

                if (is_l4s(hdr.ipv4.ecn)) {
                    queue_class.apply(hdr.ipv4, standard.priority);
                }

                if (hdr.ipv4.dst_addr[31:28] == 14) {  // 224.0.0.0/4
                    bit<16> group;
                    multicast.apply(hdr.ipv4, standard.ingress_port, found, group, is_checked,
                                    is_refused);
                    if (found) {
                        standard.mcast_grp = group;
                        meta.replicated = true;
                        group_columns.apply(hdr.ipv4, meta.first_column);
                    }
                }
            }

            if (!is_checked) {
                source_guard.apply(hdr.ipv4, standard.ingress_port, from_host, is_refused);
            }
            if (is_refused) {
                standard.mcast_grp = 0;
                count(IngressFate.REFUSED);
                exit;
            }

            if (punt) {
                bit<32> colour;
                igmp_meter.execute_meter((bit<32>)standard.ingress_port, colour);
                if (colour != METER_GREEN) {
                    count(IngressFate.POLICED);
                    exit;
                }
                send(CPU_PORT);
                count(IngressFate.TO_CONTROLLER);
                exit;
            }
        }

        bool taken;
        bool summary;
        bool copy;
        bit<32> frame_bytes;
        aggregation.apply(hdr, meta.feedback_parsed, from_host, meta.replicated,
                          meta.carries_summary, standard.ingress_port, standard.ingress_global_timestamp[31:0],
                          taken, summary, copy, frame_bytes);
        if (copy) {
            meta.carries_summary = true;
            clone_preserving_field_list(CloneType.I2E, SUMMARY_SESSION, SUMMARY_FIELDS);
        }
        if (summary) {
            truncate(frame_bytes);
        }

        // A carrier came in as another packet, and has been counted.
        bool came_in = standard.instance_type == NORMAL;
        if (taken && !summary) {
            if (came_in) {
                count(IngressFate.AGGREGATED);
            }
        } else if (hdr.ipv4.dst_addr[31:28] == 14) {
            if (meta.replicated) {
                entered.count(entered_group_cell(standard.mcast_grp));
                count(IngressFate.FORWARDED);
            } else if (came_in) {
                count(IngressFate.NO_GROUP);
            }
        } else {
            unicast.apply(hdr.ethernet, hdr.ipv4, found, port);
            if (!found) {
                bit<32> flow;
                flow_hash.apply(hdr, meta.tcp_ports, flow);
                equal_paths.apply(hdr.ethernet, hdr.ipv4, flow, found, port);
            }
            if (found) {
                send(port);
                if (came_in) {
                    count(IngressFate.FORWARDED);
                }
            } else if (came_in) {
                count(IngressFate.NO_ROUTE);
            }
        }
    }
}

control TiercastEgress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard) {
    PortPolicy() port_policy;
    PriorityMarking() priority_marking;
    ThresholdMarking() threshold_marking;
    DropTail() drop_tail;
    Red() red;
    Codel() codel;
    Pie() pie;
    Pi2() pi2;
    DualPi2() dualpi2;
    PacketIn() to_controller;

    // Average queue length of each port, as of its last departure: packets with 8 fraction bits;
    // lib/queue_average.p4 says the error, and for ports with RED lib/red_average.p4. Ports without
    // an average hold 0. A cell is read and written by packets of one port only, which depart one
    // by one; so are those of RED.
    @name(".avg_queue")
    register<bit<32>>(PORTS) avg_queue;

    // RED's state of each port (red_state_t).
    @name(".red_average")
    register<bit<32>>(PORTS) red_average;
    @name(".red_departure_us")
    register<bit<32>>(PORTS) red_departure_us;
    @name(".red_until_mark")
    register<bit<32>>(PORTS) red_until_mark;

    // CoDel's state of each port (codel_state_t).
    @name(".codel_phase")
    register<bit<8>>(PORTS) codel_phase;
    @name(".codel_first_above_us")
    register<bit<32>>(PORTS) codel_first_above_us;
    @name(".codel_next_us")
    register<bit<32>>(PORTS) codel_next_us;
    @name(".codel_count")
    register<bit<16>>(PORTS) codel_count;
    @name(".codel_last_count")
    register<bit<16>>(PORTS) codel_last_count;
    @name(".codel_inverse_sqrt")
    register<bit<16>>(PORTS) codel_inverse_sqrt;

    // PIE's, PI2's and DualPI2's state of each port (pi_state_t, pie_state_t, dualpi2_waits_t).
    @name(".pi_probability")
    register<bit<32>>(PORTS) pi_probability;
    @name(".pi_delay_us")
    register<bit<32>>(PORTS) pi_delay_us;
    @name(".pi_updated_us")
    register<bit<32>>(PORTS) pi_updated_us;
    @name(".pie_burst_us")
    register<bit<32>>(PORTS) pie_burst_us;
    @name(".pie_accumulated")
    register<bit<32>>(PORTS) pie_accumulated;
    @name(".dualpi2_classic_us")
    register<bit<32>>(PORTS) dualpi2_classic_us;
    @name(".dualpi2_l4s_us")
    register<bit<32>>(PORTS) dualpi2_l4s_us;

    // Packets, and bytes of the frames as they came in, by column and fate (lib/fates.p4).
    @name(".egress_fates")
    counter(EGRESS_COLUMNS * EGRESS_FATES, CounterType.packets_and_bytes) egress_fates;

    action count(in EgressFate fate) {
        egress_fates.count(egress_cell(fate, meta.first_column, standard.egress_port));
    }

    action read_pi(out pi_state_t pi) {
        bit<32> port_index = (bit<32>)standard.egress_port;
        pi_probability.read(pi.probability, port_index);
        pi_delay_us.read(pi.delay_us, port_index);
        pi_updated_us.read(pi.updated_us, port_index);
    }

    action write_pi(in pi_state_t pi) {
        bit<32> port_index = (bit<32>)standard.egress_port;
        pi_probability.write(port_index, pi.probability);
        pi_delay_us.write(port_index, pi.delay_us);
        pi_updated_us.write(port_index, pi.updated_us);
    }

    apply {
        if (standard.instance_type == INGRESS_CLONE) {
            recirculate_preserving_field_list(SUMMARY_FIELDS);
        } else if (meta.replicated && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);
            count(EgressFate.PRUNED);
        } else {
            bit<32> port_index = (bit<32>)standard.egress_port;
            queue_t queue = { standard.enq_qdepth, standard.deq_qdepth, standard.enq_timestamp,
                              standard.deq_timedelta };
            bit<32> average = 0;
            bool is_marked = false;
            bool is_dropped = false;
            port_policy_t port = { ... };
            port_policy.apply(standard.egress_port, port);
            if (port.policy == Policy.PRIORITY) {
                avg_queue.read(average, port_index);
                priority_marking.apply(hdr.ipv4, standard.egress_port, queue, port.threshold,
                                       port.idle_us, average, is_marked);
            } else if (port.policy == Policy.THRESHOLD) {
                threshold_marking.apply(hdr.ipv4, queue, port.limit, is_marked);
            } else if (port.policy == Policy.DROP_TAIL) {
                drop_tail.apply(queue, port.limit, is_dropped);
            } else if (port.policy == Policy.RED) {
                bit<16> uniform;
                random(uniform, 0, 0xffff);
                red_state_t state;
                red_average.read(state.average, port_index);
                red_departure_us.read(state.departure_us, port_index);
                red_until_mark.read(state.until_mark, port_index);
                red.apply(hdr.ipv4, queue, port.red, port.limit, port.idle_us, uniform, state,
                          is_marked, is_dropped);
                red_average.write(port_index, state.average);
                red_departure_us.write(port_index, state.departure_us);
                red_until_mark.write(port_index, state.until_mark);
                average = state.average >> (RED_FRACTION_BITS - QUEUE_FRACTION_BITS);
            } else if (port.policy == Policy.CODEL) {
                bit<8> phase;
                codel_state_t state;
                codel_phase.read(phase, port_index);
                state.phase = (CodelPhase)phase;
                codel_first_above_us.read(state.first_above_us, port_index);
                codel_next_us.read(state.next_us, port_index);
                codel_count.read(state.count, port_index);
                codel_last_count.read(state.last_count, port_index);
                codel_inverse_sqrt.read(state.inverse_sqrt, port_index);
                codel.apply(hdr.ipv4, queue, port.codel, standard.egress_global_timestamp[31:0], state,
                            is_marked, is_dropped);
                codel_phase.write(port_index, (bit<8>)state.phase);
                codel_first_above_us.write(port_index, state.first_above_us);
                codel_next_us.write(port_index, state.next_us);
                codel_count.write(port_index, state.count);
                codel_last_count.write(port_index, state.last_count);
                codel_inverse_sqrt.write(port_index, state.inverse_sqrt);
            } else if (port.policy == Policy.PIE) {
                bit<32> uniform;
                random(uniform, 0, 0xffffffff);
                pi_state_t pi;
                read_pi(pi);
                pie_state_t state;
                pie_burst_us.read(state.burst_us, port_index);
                pie_accumulated.read(state.accumulated, port_index);
                pie.apply(hdr.ipv4, queue, port.idle_us, port.pie, uniform, pi, state,
                          is_marked, is_dropped);
                pie_burst_us.write(port_index, state.burst_us);
                pie_accumulated.write(port_index, state.accumulated);
                write_pi(pi);
            } else if (port.policy == Policy.PI2) {
                bit<32> uniform;
                random(uniform, 0, 0xffffffff);
                bit<32> other_uniform;
                random(other_uniform, 0, 0xffffffff);
                pi_state_t pi;
                read_pi(pi);
                pi2.apply(hdr.ipv4, queue, port.idle_us, port.pi2, uniform, other_uniform, pi,
                          is_marked, is_dropped);
                write_pi(pi);
            } else if (port.policy == Policy.DUALPI2) {
                bit<32> uniform;
                random(uniform, 0, 0xffffffff);
                bit<32> other_uniform;
                random(other_uniform, 0, 0xffffffff);
                pi_state_t pi;
                read_pi(pi);
                dualpi2_waits_t waits;
                dualpi2_classic_us.read(waits.classic_us, port_index);
                dualpi2_l4s_us.read(waits.l4s_us, port_index);
                dualpi2.apply(hdr.ipv4, queue, port.idle_us, port.dualpi2, uniform, other_uniform,
                              pi, waits, is_marked, is_dropped);
                dualpi2_classic_us.write(port_index, waits.classic_us);
                dualpi2_l4s_us.write(port_index, waits.l4s_us);
                write_pi(pi);
            }
            avg_queue.write(port_index, average);

            if (is_dropped) {
                mark_to_drop(standard);
                count(EgressFate.DROPPED);
            } else {
                if (is_marked) {
                    count(EgressFate.LEFT_MARKED);
                } else {
                    count(EgressFate.LEFT);
                }
                if (standard.egress_port == CPU_PORT) {
                    to_controller.apply(hdr, standard.ingress_port);
                }
            }
        }
    }
}

V1Switch(TiercastParser(), TiercastVerifyChecksum(), TiercastIngress(), TiercastEgress(),
         TiercastComputeChecksum(), TiercastDeparser()) main;
