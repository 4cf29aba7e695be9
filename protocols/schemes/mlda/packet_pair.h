// The bottleneck's bandwidth by packet pairs (Bolot, Carter and Crovella's bprobe; PROTOCOLS 7.5):
// two packets that leave back to back arrive as far apart as the bottleneck takes for one of them.
#pragma once

#include <cstdint>
#include <vector>

#include "protocols/base/units.h"

namespace tiercast::mlda {

class PacketPair {
 public:
  // Keeps the last `samples` (>= 1); those within `cluster` (0 .. 1) of one another agree.
  PacketPair(unsigned samples, double cluster);

  // A packet of the base layer: `pair` 0, 1 or 2 as its header says, `bytes` its IP length.
  void receive(Time now, std::uint32_t seq, unsigned pair, std::uint32_t bytes);

  // Mean of the samples that agree with most others; zero without samples. O(samples^2).
  Rate estimate() const;
  std::size_t samples() const { return samples_.size(); }

 private:
  const std::size_t capacity_;
  const double cluster_;
  std::vector<float> samples_;  // B/s, a ring once it is full
  std::size_t next_ = 0;
  bool first_seen_ = false;  // the packet before was the first of a pair
  std::uint32_t first_seq_ = 0;
  Time first_at_;
};

}  // namespace tiercast::mlda
