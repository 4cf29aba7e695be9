// Which of a port's queues a packet waits in, by its ECN field: where entries say so, ECT(1) and CE
// are L4S's and wait in a queue of their own (RFC 9331, 5.1; RFC 9332, 2.3). Without entries every
// packet keeps priority 0, which each target has a queue for.
#ifndef TIERCAST_QUEUE_CLASS_P4
#define TIERCAST_QUEUE_CLASS_P4

#include "../include/headers.p4"

// L4S's identifier, ECT(1), and CE, which may have been ECT(1).
bool is_l4s(in bit<2> ecn) {
    return ecn[0:0] == 1;
}

// For packets of L4S, so that others pay nothing.
control QueueClass(in ipv4_t ipv4, inout bit<3> priority) {
    // Queues of higher priorities are served first.
    @name(".set_priority")
    action set_priority(bit<3> queue_priority) {
        priority = queue_priority;
    }

    // Entry: 2 bits of key, 3 of action data.
    @name(".queue_class")
    table queue_class {
        key = { ipv4.ecn: exact @name("ecn"); }
        actions = { set_priority; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 4;
    }

    apply {
        queue_class.apply();
    }
}

#endif
