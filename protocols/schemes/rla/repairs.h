// The packets that RLA's sender has to repeat: all receivers have them or have lost them
// (RLA 3.3, footnote 8). They wait for room in the window, leave, and are out until all have
// spoken.
#pragma once

#include <cstdint>

#include "protocols/schemes/rla/scoreboard.h"

namespace tiercast::rla {

class Repairs {
 public:
  explicit Repairs(Scoreboard& board) : board_(board), queued_(board), ready_(board) {}

  // Lost by somebody, and had or lost by all: it waits, unless it does already.
  void want(std::uint32_t seq);
  // It is no longer to be repeated, whatever it waited for.
  void take(std::uint32_t seq);
  // None of the window is.
  void forget();

  bool waiting() const { return !queued_.empty(); }
  bool ready() const { return !ready_.empty(); }
  std::uint32_t ready_count() const { return ready_.size(); }
  std::uint32_t out() const { return out_; }  // packets, ready or repeated

  // The next one that waits; it then counts as out, for the caller to repeat.
  std::uint32_t next();
  // A packet that waits for nothing goes by multicast, with the next ones that leave.
  void to_multicast(std::uint32_t seq);
  // The next one to be multicast.
  std::uint32_t next_ready();

 private:
  Scoreboard& board_;
  PacketList queued_;  // until the window has room
  PacketList ready_;   // by the next packets that leave
  std::uint32_t out_ = 0;
};

}  // namespace tiercast::rla
