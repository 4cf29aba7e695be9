// The packets of a trial in the order of their arrival, and the changes of the link's rate between
// them. The same trial gives the same ones, whatever they are sent through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tiercast/v1/marking.pb.h"

namespace tiercast::marking {

// From this time on the link sends at rate_bps.
using OnRate = std::function<void(std::int64_t time_ns, double rate_bps)>;
// A packet of that class arrives.
using OnArrival = std::function<void(std::int64_t time_ns, std::size_t traffic_class)>;

// Throws ConfigError, which names what is wrong with the trial and what is valid.
void for_each_arrival(const v1::MarkingTrial& trial, const OnRate& on_rate,
                      const OnArrival& on_arrival);

}  // namespace tiercast::marking
