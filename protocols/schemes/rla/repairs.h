// The packets that RLA's sender must repeat: somebody lost them, and all receivers have either
// received or lost them (RLA 3.3, footnote 8). They wait for room in the window, then leave, and
// count as out until all receivers have reported.
#pragma once

#include <cstdint>

#include "protocols/schemes/rla/scoreboard.h"

namespace tiercast::rla {

class Repairs {
 public:
  explicit Repairs(Scoreboard& board) : board_(board), queued_(board), ready_(board) {}

  // Some receiver lost the packet, and all others have received or lost it. The packet now waits,
  // unless it does already.
  void want(std::uint32_t seq);
  // The packet is no longer to be repeated, whatever its state.
  void take(std::uint32_t seq);
  // No packet of the window is to be repeated.
  void forget();

  bool waiting() const { return !queued_.empty(); }
  bool ready() const { return !ready_.empty(); }
  std::uint32_t ready_count() const { return ready_.size(); }
  std::uint32_t out() const { return out_; }  // packets that are ready or repeated

  // The next waiting packet. It then counts as out, and the caller must repeat it.
  std::uint32_t next();
  // A packet that does not wait is to leave by multicast, with the next packets.
  void to_multicast(std::uint32_t seq);
  // The next packet to leave by multicast.
  std::uint32_t next_ready();

 private:
  Scoreboard& board_;
  PacketList queued_;  // waiting for room in the window
  PacketList ready_;   // to leave with the next packets
  std::uint32_t out_ = 0;
};

}  // namespace tiercast::rla
