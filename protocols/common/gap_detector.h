// Detects losses by gaps in one layer's sequence numbers, and a sender that has restarted
// (PROTOCOLS 0.2 and 0.3). It assumes a FIFO path: the reorder tolerance is 0.
#pragma once

#include <cstdint>

#include "protocols/base/serial.h"
#include "protocols/common/strays.h"

namespace tiercast {

class GapDetector {
 public:
  enum class Order {
    kNewest,   // the first packet, too
    kLate,     // or a duplicate
    kStray,    // far from the others: to be ignored
    kRestart,  // the sender has restarted: what is known of the earlier packets is void
  };
  struct Packet {
    Order order = Order::kNewest;
    std::uint32_t lost = 0;  // packets just before this one that are missing
  };

  // Takes the sequence number of a packet that arrived. One that is further ahead than `max_gap` is
  // far from the others.
  Packet receive(std::uint32_t seq, std::int32_t max_gap = 1 << 16) {
    const std::int32_t ahead = serial_difference(seq, expected_);
    if (!started_) return follow(seq, {Order::kNewest});
    if (ahead > max_gap || ahead < -kMaxLate) {
      return strays_.restarted(seq) ? follow(seq, {Order::kRestart}) : Packet{Order::kStray};
    }
    strays_.clear();
    if (ahead < 0) return {Order::kLate};
    return follow(seq, {Order::kNewest, static_cast<std::uint32_t>(ahead)});
  }

  // Forgets everything, so that the next packet counts as the first one. For a layer that is joined
  // again.
  void reset() { *this = GapDetector(); }

 private:
  static constexpr std::int32_t kMaxLate = 1 << 10;

  Packet follow(std::uint32_t seq, Packet packet) {
    started_ = true;
    expected_ = seq + 1;
    return packet;
  }

  std::uint32_t expected_ = 0;
  bool started_ = false;
  Strays strays_;
};

}  // namespace tiercast
