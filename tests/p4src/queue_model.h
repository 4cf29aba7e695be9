// What a first-in, first-out port does with packets, and the average that SIM makes of it: an
// independent account, for comparison with the traffic manager and the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tiercast::p4test {

struct Arrival {
  std::int64_t time_ns;
  std::uint32_t ip_bytes;
};

struct Departure {
  std::int64_t time_ns;  // out of the queue, onto the link
  std::uint32_t depth;   // packets left in the queue
  bool link_was_idle;    // when the packet arrived
};

// Arrivals in order of time, none at the instant of a departure that is not its own.
inline std::vector<Departure> departures(const std::vector<Arrival>& arrivals,
                                         std::int64_t ns_per_byte) {
  std::vector<Departure> out;
  std::int64_t link_free_ns = 0;
  for (const Arrival& arrival : arrivals) {
    const bool idle = arrival.time_ns >= link_free_ns;
    const std::int64_t time_ns = idle ? arrival.time_ns : link_free_ns;
    std::uint32_t depth = 0;
    for (std::size_t later = out.size() + 1;
         later < arrivals.size() && arrivals[later].time_ns < time_ns; ++later) {
      ++depth;
    }
    out.push_back({time_ns, depth, idle});
    link_free_ns = time_ns + arrival.ip_bytes * ns_per_byte;
  }
  return out;
}

// SIM 3.4 with weight 1/8, in real numbers: packets.
struct ExactAverage {
  double packets = 0;
  void depart(const Departure& d) {
    packets = d.link_was_idle ? 0 : packets + (d.depth - packets) / 8;
  }
};

// The same in integers, unit 1/256 packet: 7/8 of the average, rounded up, and 1/8 of the depth.
struct FixedPointAverage {
  std::uint32_t units = 0;
  void depart(const Departure& d) {
    units = d.link_was_idle ? 0 : (7 * units + 7) / 8 + 32 * d.depth;
  }
};

}  // namespace tiercast::p4test
