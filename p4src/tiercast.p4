// The tiercast switch for v1model: IPv4 unicast, multicast by replication groups, IGMP to the
// controller, SIM priority marking.
//
// lib/ holds the logic, in controls that use core.p4 alone. What belongs to v1model stands here:
// ports, replication, the queue's metadata, registers and counters.
#include <core.p4>
#include <v1model.p4>

#include "include/headers.p4"
#include "include/parser.p4"
#include "lib/controller.p4"
#include "lib/fates.p4"
#include "lib/forwarding.p4"
#include "lib/igmp.p4"
#include "lib/ipv4.p4"
#include "lib/marking.p4"
#include "lib/multicast.p4"
#include "lib/port_policy.p4"
#include "lib/red.p4"
#include "lib/threshold.p4"
#include "v1model/aggregation.p4"

// The clone session of the copies that become summaries: the controller gives it one replica, on
// CPU_PORT, from whose egress they go to ingress again.
const bit<32> SUMMARY_SESSION = 1;
// standard_metadata.instance_type
const bit<32> NORMAL = 0;
const bit<32> INGRESS_CLONE = 1;

control TiercastIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard) {
    PacketOut() from_controller;
    Ipv4Validation() validation;
    IgmpToController() igmp;
    Ipv4Hop() hop;
    MulticastForwarding() multicast;
    GroupColumns() group_columns;
    UnicastForwarding() unicast;
    Aggregation() aggregation;

    // Packets by ingress port and fate (lib/fates.p4).
    @name(".ingress_fates")
    counter(PORTS * INGRESS_FATES, CounterType.packets) ingress_fates;

    // Packets handed to queues, by port or replication group (lib/fates.p4).
    @name(".entered")
    counter(ENTERED_CELLS, CounterType.packets) entered;

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
            if (punt) {
                send(CPU_PORT);
                count(IngressFate.TO_CONTROLLER);
                exit;
            }

            bool expired;
            hop.apply(hdr.ipv4, expired);
            if (expired) {
                count(IngressFate.EXPIRED);
                exit;
            }

            if (hdr.ipv4.dst_addr[31:28] == 14) {  // 224.0.0.0/4
                bit<16> group;
                multicast.apply(hdr.ipv4, found, group);
                if (found) {
                    standard.mcast_grp = group;
                    meta.replicated = true;
                    group_columns.apply(hdr.ipv4, meta.first_column);
                }
            }
        }

        bool taken;
        bool summary;
        bool copy;
        bit<32> frame_bytes;
        aggregation.apply(hdr, meta.feedback_parsed, meta.replicated, meta.carries_summary,
                          standard.ingress_port, standard.ingress_global_timestamp[31:0],
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

    // Packets, and bytes of the frames as they came in, by column and fate (lib/fates.p4).
    @name(".egress_fates")
    counter(EGRESS_COLUMNS * EGRESS_FATES, CounterType.packets_and_bytes) egress_fates;

    action count(in EgressFate fate) {
        egress_fates.count(egress_cell(fate, meta.first_column, standard.egress_port));
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
