// The exponentially weighted average of an output queue's length. SIM 3.4: updated upon departures,
// 0 when the link is idle.
//
//   average <- (1 - w) average + w depth,   w = 2^-QUEUE_WEIGHT_SHIFT = 1/8
//
// Fixed point: packets with QUEUE_FRACTION_BITS fraction bits; the unit is 1/256 packet. Each
// update rounds (1 - w) average up, by at most 1 - w = 7/8 unit, and of an error (1 - w) is left at
// the next update: all of them add up to at most (1 - w)/w = 7 units. So the value stands between
// the exact average and 7/256 packet (0.028) above it. It cannot overflow: 2^19 packets are 2^27
// units.
#ifndef TIERCAST_QUEUE_AVERAGE_P4
#define TIERCAST_QUEUE_AVERAGE_P4

const int QUEUE_FRACTION_BITS = 8;
const int QUEUE_WEIGHT_SHIFT = 3;

control QueueAverage(in bit<19> depth,  // packets left when this one departs, itself not counted
                     in bool was_idle,  // the link was idle when this packet arrived
                     inout bit<32> average) {
    apply {
        if (was_idle) {
            average = 0;
        } else {
            average = average - (average >> QUEUE_WEIGHT_SHIFT) +
                      ((bit<32>)depth << (QUEUE_FRACTION_BITS - QUEUE_WEIGHT_SHIFT));
        }
    }
}

#endif
