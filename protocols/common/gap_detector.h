// Detects losses by gaps in one layer's sequence numbers (PROTOCOLS 0.2 and 0.3). It assumes a FIFO
// path: the reorder tolerance is 0.
#pragma once

#include <cstdint>

#include "protocols/base/serial.h"

namespace tiercast {

class GapDetector {
 public:
  // Takes the sequence number of a packet that arrived. Returns how many packets just before it are
  // missing (0 to kMaxGap). A late or duplicate packet returns 0 and is otherwise ignored. The
  // first packet sets the expected number and returns 0, and so does one that is so far off that
  // the sender must have restarted.
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

  // Forgets everything, so that the next packet counts as the first one. For a layer that is joined
  // again.
  void reset() { started_ = false; }

  static constexpr std::int32_t kMaxGap = 1 << 16;
  static constexpr std::int32_t kMaxLate = 1 << 10;

 private:
  std::uint32_t expected_ = 0;
  bool started_ = false;
};

}  // namespace tiercast
