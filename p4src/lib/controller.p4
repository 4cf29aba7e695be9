// Frames from and to the controller.
#ifndef TIERCAST_CONTROLLER_P4
#define TIERCAST_CONTROLLER_P4

#include "../include/headers.p4"

// The controller names the port; the frame leaves as it was given.
control PacketOut(inout headers_t hdr, out bool found, out port_t egress_port) {
    apply {
        found = hdr.packet_out.isValid() && hdr.ethernet.isValid();
        egress_port = 0;
        if (found) {
            egress_port = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        }
    }
}

// Tells the controller where the frame came in.
control PacketIn(inout headers_t hdr, in port_t ingress_port) {
    apply {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = ingress_port;
        hdr.packet_in.pad = 0;
    }
}

#endif
