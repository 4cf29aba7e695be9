// What a first-in, first-out port does with packets, and SIM's average of its queue: an independent
// calculation, to compare with the traffic manager and the program.
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
  std::int64_t time_ns;  // when it leaves the queue for the link
  std::uint32_t depth;   // packets that remain in the queue
  bool link_was_idle;    // when the packet arrived
};

// `arrivals`: in order of time. None may be at the instant of another packet's departure.
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

// SIM 3.4 with weight 1/8, in real numbers. Unit: packets.
struct ExactAverage {
  double packets = 0;
  void depart(const Departure& d) {
    packets = d.link_was_idle ? 0 : packets + (d.depth - packets) / 8;
  }
};

// The same in integers, in units of 1/256 packet: 7/8 of the average, rounded up, plus 1/8 of the
// depth.
struct FixedPointAverage {
  std::uint32_t units = 0;
  void depart(const Departure& d) {
    units = d.link_was_idle ? 0 : (7 * units + 7) / 8 + 32 * d.depth;
  }
};

}  // namespace tiercast::p4test
