// What a packet met in its output queue, as the controls that judge queues are told. A target that
// hands its program a queue's depth fills it in from there; another one from registers.
#ifndef TIERCAST_QUEUE_P4
#define TIERCAST_QUEUE_P4

struct queue_t {
    bit<19> enq_depth;   // packets that this one found waiting, the one in service not counted
    bit<19> deq_depth;   // packets left when it departed, itself not counted
    bit<32> arrival_us;  // when it came to the queue, modulo 2^32
    bit<32> wait_us;     // from then to its departure
}

// idle_us: a packet that found the queue empty and waited at most this long found the link idle. 0
// where the target's wait is 0 exactly then; the time that the target takes to hand over a packet
// where it is not.
bool link_was_idle(in queue_t queue, in bit<32> idle_us) {
    return queue.enq_depth == 0 && queue.wait_us <= idle_us;
}

#endif
