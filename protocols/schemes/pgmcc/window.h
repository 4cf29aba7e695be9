// PGMCC's window W and tokens T, which run on the acker's acknowledgements (PROTOCOLS 9).
//
// A packet that leaves takes a token. Its acknowledgement gives back slightly more than one. T +
// packets under way follows W.
#pragma once

#include <cstdint>
#include <vector>

#include "protocols/base/serial.h"
#include "protocols/schemes/pgmcc/settings.h"

namespace tiercast::pgmcc {

// 1 / T of a receiver, up to a constant factor; the acker has the largest value. `rtt` in s;
// `loss`: p in 0 .. 1. Returns 0 if nothing was lost.
double slowness(double rtt, double loss);

class Window {
 public:
  // Packet numbers start with `first`.
  Window(const Settings& settings, std::uint32_t first);

  // How many packets may leave: there is a token for each, and room in the window's memory.
  std::uint32_t sendable() const;
  // Takes a token for a packet that leaves, and returns its number.
  std::uint32_t send();
  std::uint32_t next() const { return next_; }
  std::uint32_t capacity() const { return mask_ + 1; }  // packets under way at most
  // Whether `seq` is one of the latest packets sent.
  bool recent(std::uint32_t seq) const { return next_ - 1 - seq < sent_; }

  struct Outcome {
    std::uint32_t acked = 0;
    std::uint32_t lost = 0;
    bool cut = false;
  };
  // Takes an acknowledgement: bit i of `bitmap` says whether the acker has packet rx_max - i.
  // `rx_max` must be recent().
  Outcome acknowledge(std::uint32_t rx_max, std::uint32_t bitmap);
  // Sets W = T = 1 and forgets what is under way.
  void restart();

  double w() const { return w_; }            // packets, 1 .. max_window
  double tokens() const { return tokens_; }  // may be negative after a cut

 private:
  friend struct LongRun;  // a test, of what takes hours to reach

  enum class State : std::uint8_t { kSettled, kOut, kAcked };
  static constexpr std::uint32_t kRecent = 1 << 16;
  State& state(std::uint32_t seq) { return states_[seq & mask_]; }

  const Settings settings_;
  const std::uint32_t mask_;
  std::uint32_t sent_ = 0;  // at most kRecent
  std::uint32_t next_;
  std::uint32_t base_;     // all packets before it are settled
  std::uint32_t top_;      // one above the highest acknowledged packet
  std::uint32_t recover_;  // no changes until feedback for this packet or a later one arrives;
                           // never behind base_ for longer than an acknowledgement
  bool recovering_ = false;
  double w_ = 1;
  double tokens_ = 1;
  std::vector<State> states_;
};

}  // namespace tiercast::pgmcc
