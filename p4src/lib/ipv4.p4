// What every IPv4 router does to every packet: check it, count the hop, keep the checksum right.
//
// Options are not read: they pass as payload. The checksum of a header with options is therefore
// not verified here, and is adjusted rather than computed anew, so that a wrong checksum stays
// wrong for the next one who verifies it.
#ifndef TIERCAST_IPV4_P4
#define TIERCAST_IPV4_P4

#include "../include/headers.p4"

// The header checksum after one of its 16-bit words has changed: HC' = ~(~HC + ~m + m').
// RFC 1624 (3)
bit<16> adjusted_checksum(in bit<16> checksum, in bit<16> before, in bit<16> after) {
    bit<32> sum = (bit<32>)(~checksum) + (bit<32>)(~before) + (bit<32>)after;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum[15:0];
}

// Writes the checksum of a header without options, from its other fields. RFC 1071
control Ipv4Checksum(inout ipv4_t ipv4) {
    apply {
        bit<32> sum =
            (bit<32>)(ipv4.version ++ ipv4.ihl ++ ipv4.dscp ++ ipv4.ecn) +
            (bit<32>)ipv4.total_len + (bit<32>)ipv4.identification +
            (bit<32>)(ipv4.flags ++ ipv4.frag_offset) + (bit<32>)(ipv4.ttl ++ ipv4.protocol) +
            (bit<32>)ipv4.src_addr[31:16] + (bit<32>)ipv4.src_addr[15:0] +
            (bit<32>)ipv4.dst_addr[31:16] + (bit<32>)ipv4.dst_addr[15:0];
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        ipv4.checksum = ~sum[15:0];
    }
}

// valid: the packet may be forwarded. RFC 1812, 5.2.2 and 5.3.4.
control Ipv4Validation(in ethernet_t ethernet,
                       in ipv4_t ipv4,
                       in bit<32> frame_bytes,  // from the first byte of the Ethernet header
                       in bool checksum_error,
                       out bool valid) {
    apply {
        valid = false;
        if (ethernet.isValid() && ipv4.isValid() && !checksum_error && ipv4.version == 4 &&
            ipv4.ihl >= 5) {
            bit<16> header_bytes = (bit<16>)ipv4.ihl << 2;
            bool whole = ipv4.total_len >= header_bytes &&
                         frame_bytes >= ETHERNET_BYTES + (bit<32>)ipv4.total_len;
            // Each router that hears a frame for many would forward the packet for one in it.
            bool one_for_many = ethernet.dst_addr[40:40] == 1 && ipv4.dst_addr[31:28] != 14;
            valid = whole && !one_for_many;
        }
    }
}

// Takes one hop off the time to live. expired: there was none left, and the packet must not be
// forwarded.
control Ipv4Hop(inout ipv4_t ipv4, out bool expired) {
    apply {
        expired = ipv4.ttl <= 1;
        if (!expired) {
            bit<16> before = ipv4.ttl ++ ipv4.protocol;
            ipv4.ttl = ipv4.ttl - 1;
            ipv4.checksum = adjusted_checksum(ipv4.checksum, before, ipv4.ttl ++ ipv4.protocol);
        }
    }
}

// Of a valid header: congestion may be told in it: ECT(0), ECT(1) or CE. RFC 3168, 5
bool ect(in bit<2> ecn) {
    return ecn != ECN_NOT_ECT;
}

// It may, and has not been yet.
bool markable(in bit<2> ecn) {
    return ect(ecn) && ecn != ECN_CE;
}

// Writes CE, the mark. RFC 3168, 5
control Ipv4MarkCongestion(inout ipv4_t ipv4) {
    apply {
        bit<16> before = ipv4.version ++ ipv4.ihl ++ ipv4.dscp ++ ipv4.ecn;
        ipv4.ecn = ECN_CE;
        bit<16> after = ipv4.version ++ ipv4.ihl ++ ipv4.dscp ++ ipv4.ecn;
        ipv4.checksum = adjusted_checksum(ipv4.checksum, before, after);
    }
}

#endif
