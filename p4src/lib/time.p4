// Times in microseconds, modulo 2^32. Two are compared by their difference, which is right while
// they are less than 2^31 us (35 minutes) apart.
#ifndef TIERCAST_TIME_P4
#define TIERCAST_TIME_P4

bool reached(in bit<32> now_us, in bit<32> time_us) {
    return (now_us - time_us)[31:31] == 0;
}

#endif
