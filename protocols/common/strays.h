// Packets whose numbers are far from those that are expected (PROTOCOLS 0.2). One by itself may be
// another sender's, or may have been on its way for very long, and is to be ignored. Several in a
// row are those of a sender that has restarted.
#pragma once

#include <cstdint>

#include "protocols/base/serial.h"

namespace tiercast {

class Strays {
 public:
  // Takes the number of such a packet. True if the sender must have restarted: this is the third in
  // a row, and they are near each other.
  bool restarted(std::uint32_t seq) {
    const std::int32_t apart = serial_difference(seq, last_);
    const bool near = in_a_row_ > 0 && apart >= -kNear && apart <= kNear;
    in_a_row_ = near ? in_a_row_ + 1 : 1;
    last_ = seq;
    if (in_a_row_ < kRestart) return false;
    in_a_row_ = 0;
    return true;
  }

  // A packet has come that is not far.
  void clear() { in_a_row_ = 0; }

 private:
  static constexpr unsigned kRestart = 3;
  static constexpr std::int32_t kNear = 1 << 16;

  std::uint32_t last_ = 0;
  unsigned in_a_row_ = 0;
};

}  // namespace tiercast
