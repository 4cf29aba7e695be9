// Loss by gaps in one layer's sequence numbers (PROTOCOLS 0.2 and 0.3), for a FIFO path: reorder
// tolerance 0.
#pragma once

#include <cstdint>

#include "protocols/base/serial.h"

namespace tiercast {

class GapDetector {
 public:
  // Takes the sequence number of a packet that arrived; returns how many packets before it are
  // missing (0 .. kMaxGap). A late or duplicate packet gives 0 and is otherwise ignored. The first
  // packet, and one so far off that the sender must have restarted, sets the expected number and
  // gives 0.
  std::uint32_t receive(std::uint32_t seq) {
    const std::int32_t ahead = serial_difference(seq, expected_);
    if (!started_ || ahead > kMaxGap || ahead < -kMaxLate) {
      started_ = true;
      expected_ = seq + 1;
      return 0;
    }
    if (ahead < 0) return 0;
    expected_ = seq + 1;
    return static_cast<std::uint32_t>(ahead);
  }

  // Forgets everything; the next packet is a first one (after leaving and joining a layer).
  void reset() { started_ = false; }

  static constexpr std::int32_t kMaxGap = 1 << 16;
  static constexpr std::int32_t kMaxLate = 1 << 10;

 private:
  std::uint32_t expected_ = 0;
  bool started_ = false;
};

}  // namespace tiercast
