#include "protocols/schemes/mlda/packet_pair.h"

#include <cmath>

namespace tiercast::mlda {

PacketPair::PacketPair(unsigned samples, double cluster) : capacity_(samples), cluster_(cluster) {
  samples_.reserve(capacity_);
}

void PacketPair::receive(Time now, std::uint32_t seq, unsigned pair, std::uint32_t bytes) {
  if (pair == 2 && first_seen_ && seq == first_seq_ + 1 && now > first_at_) {
    const auto sample = static_cast<float>(bytes / (now - first_at_).seconds());
    if (samples_.size() < capacity_) {
      samples_.push_back(sample);
    } else {
      samples_[next_] = sample;
      next_ = (next_ + 1) % capacity_;
    }
  }
  first_seen_ = pair == 1;
  first_seq_ = seq;
  first_at_ = now;
}

Rate PacketPair::estimate() const {
  std::size_t most = 0;
  double mean = 0;
  for (const float centre : samples_) {
    std::size_t count = 0;
    double sum = 0;
    for (const float sample : samples_) {
      if (std::abs(sample - centre) > cluster_ * centre) continue;
      ++count;
      sum += sample;
    }
    if (count > most) {
      most = count;
      mean = sum / static_cast<double>(count);
    }
  }
  return Rate::bytes_per_second(mean);
}

}  // namespace tiercast::mlda
