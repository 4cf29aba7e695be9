// Headers, ports and numbers that several files share.
#ifndef TIERCAST_HEADERS_P4
#define TIERCAST_HEADERS_P4

typedef bit<9> port_t;  // a switch port, 1..511; the targets reserve CPU_PORT and 511 (drop)
typedef bit<3> rank_t;  // a group's rank within its session, 0 at the bottom

const port_t CPU_PORT = 510;
const bit<32> PORTS = 512;  // cells of every array that a port indexes

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_IGMP = 2;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;
const bit<32> ETHERNET_BYTES = 14;

const bit<2> ECN_NOT_ECT = 0;  // RFC 3168, 5
const bit<2> ECN_ECT_1 = 1;
const bit<2> ECN_CE = 3;

// docs/wire-format.md
const bit<16> TIERCAST_DATA_PORT = 5500;
const bit<16> TIERCAST_FEEDBACK_PORT = 5501;
const bit<8>  TIERCAST_VERSION = 1;
const bit<8>  TIERCAST_TYPE_DATA = 1;
const bit<8>  TIERCAST_TYPE_FEEDBACK = 2;
const bit<8>  TIERCAST_SCHEME_SIM = 1;
const bit<16> SIM_DATA_BYTES = 32;
const bit<16> SIM_FEEDBACK_BYTES = 28;  // and 24 for each record
const bit<14> GROUP_PREFIX = 0x3bf0;  // 239.192.0.0/14: session << 3 | rank follow
const bit<16> IPV4_BYTES = 20;
const bit<16> UDP_BYTES = 8;

// A frame that the switch hands to the controller starts with this.
@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> pad;
}

// A frame that the controller hands to the switch starts with this.
@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

// The fixed 20 bytes; options stay in the payload (lib/ipv4.p4).
header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;  // 32-bit words
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> total_len;  // bytes, this header included
    bit<16> identification;
    bit<3>  flags;
    bit<13> frag_offset;  // 8 bytes
    bit<8>  ttl;  // hops
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src_addr;
    bit<32> dst_addr;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length_;  // bytes, this header included
    bit<16> checksum;
}

// Starts every message; docs/wire-format.md says what the fields mean.
header tiercast_t {
    bit<8>  version;
    bit<8>  type;
    bit<8>  scheme;
    bit<8>  flags;
    bit<16> header_length;  // bytes
    bit<16> session;
}

header sim_data_t {
    bit<8>  rank;
    bit<8>  reserved;
    bit<16> rate_epoch;
    bit<32> seq;
    bit<32> tx_time_us;
    bit<32> fb_req;
    bit<32> group_rate;  // bytes/s
    bit<32> max_rtt_us;
}

header sim_feedback_t {
    bit<32> source;
    bit<32> fb_req;
    bit<32> hold_us;
    bit<32> subtree_rtt_us;
    bit<8>  record_count;
    bit<24> reserved;
}

header sim_record_t {
    bit<8>  rank;
    bit<24> reserved;
    bit<32> reports;
    bit<32> congested;
    bit<32> min_cum_rate;  // bytes/s
    bit<32> max_cum_rate;  // bytes/s
    bit<32> receivers;
}

struct headers_t {
    packet_out_t packet_out;
    packet_in_t  packet_in;
    ethernet_t   ethernet;
    ipv4_t       ipv4;
    udp_t        udp;
    tiercast_t   tiercast;
    sim_data_t   sim_data;
    sim_feedback_t sim_feedback;
    // A message has one record at most of each rank, in ascending order.
    sim_record_t record_0;
    sim_record_t record_1;
    sim_record_t record_2;
    sim_record_t record_3;
    sim_record_t record_4;
    sim_record_t record_5;
    sim_record_t record_6;
    sim_record_t record_7;
}

const bit<8> SUMMARY_FIELDS = 1;  // field list: what such a copy keeps

struct metadata_t {
    bool replicated;  // this packet is one of the copies that ipv4_multicast asked for
    bit<32> first_column;  // of its group's fates in egress (lib/fates.p4)
    // A copy of this packet is to become a summary, or this is that copy (v1model/aggregation.p4).
    @field_list(SUMMARY_FIELDS)
    bool carries_summary;
    bool feedback_parsed;  // the feedback's records are all there, in order
    bit<32> tcp_ports;  // source and destination; 0 without a TCP header at its fixed offset
}

#endif
