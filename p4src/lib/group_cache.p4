// The aggregator's cache for the receivers of one session that have one group as their top group
// (SIM 3.1): sums of the counts, extremes of the rates. One for each rank, so that a message with
// eight records goes in, or comes out, in one pass, each array touched once.
#ifndef TIERCAST_GROUP_CACHE_P4
#define TIERCAST_GROUP_CACHE_P4

#include "../include/headers.p4"

struct group_cache_t {
    bit<32> reports;  // these three stop at 2^32 - 1
    bit<32> congested;
    bit<32> receivers;
    bit<32> min_cum_rate;  // bytes/s; these two are 0 without reports
    bit<32> max_cum_rate;
}

// Before: the packet's record of this rank, if it has one. After, with `send`: the summary's, if
// there is something to say of this rank.
control GroupCache(in bool empty, in bool merge, in bool send, in rank_t rank,
                   inout group_cache_t cache, inout sim_record_t record, inout bit<8> records) {
    apply {
        if (empty) {
            cache = { 0, 0, 0, 0, 0 };
        }
        if (record.isValid() && record.reports == 0) {
            record.min_cum_rate = 0;  // nobody's
            record.max_cum_rate = 0;
        }
        if (merge && record.isValid()) {
            if (record.reports != 0) {
                if (cache.reports == 0 || record.min_cum_rate < cache.min_cum_rate) {
                    cache.min_cum_rate = record.min_cum_rate;
                }
                if (record.max_cum_rate > cache.max_cum_rate) {
                    cache.max_cum_rate = record.max_cum_rate;
                }
            }
            cache.reports = cache.reports |+| record.reports;
            cache.congested = cache.congested |+| record.congested;
            cache.receivers = cache.receivers |+| record.receivers;
        }
        if (send) {
            if (cache.receivers != 0) {
                record.setValid();
                record.rank = (bit<8>)rank;
                record.reserved = 0;
                record.reports = cache.reports;
                record.congested = cache.congested;
                record.min_cum_rate = cache.min_cum_rate;
                record.max_cum_rate = cache.max_cum_rate;
                record.receivers = cache.receivers;
                records = records + 1;
            } else {
                record.setInvalid();
            }
        }
    }
}

#endif
