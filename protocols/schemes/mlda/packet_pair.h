// Measures the bottleneck's bandwidth with packet pairs (Bolot, Carter and Crovella's bprobe;
// PROTOCOLS 7.5). Two packets that leave back to back arrive as far apart as the bottleneck needs
// for one of them.
#pragma once

#include <cstdint>
#include <vector>

#include "protocols/base/units.h"

namespace tiercast::mlda {

class PacketPair {
 public:
  // Keeps the last `samples` (>= 1). Samples within `cluster` (0 .. 1, relative) of one another
  // agree.
  PacketPair(unsigned samples, double cluster);

  // Takes a packet of the base layer. `pair`: 0, 1 or 2 as in its header. `bytes`: its IP length.
  void receive(Time now, std::uint32_t seq, unsigned pair, std::uint32_t bytes);

  // The mean of the samples that agree with the most others; zero if there are no samples.
  // O(samples^2).
  Rate estimate() const;
  std::size_t samples() const { return samples_.size(); }

 private:
  const std::size_t capacity_;
  const double cluster_;
  std::vector<float> samples_;  // B/s; a ring when it is full
  std::size_t next_ = 0;
  bool first_seen_ = false;  // the previous packet was the first of a pair
  std::uint32_t first_seq_ = 0;
  Time first_at_;
};

}  // namespace tiercast::mlda
