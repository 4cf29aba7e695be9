// Measures the longest pause of a program's loop. The loop turns at least once per beat, so a
// longer pause means that the process was stopped or had no CPU.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tiercast {

// Times are nanoseconds of one monotonic clock.
class TurnWatch {
 public:
  static constexpr std::int64_t kBeatNs = 100'000'000;

  // To be called when the loop turns. The first call does not end a pause.
  void turn(std::int64_t now_ns) {
    if (last_ns_ != kNone) longest_ns_ = std::max(longest_ns_, now_ns - last_ns_);
    last_ns_ = now_ns;
    if (now_ns >= next_beat_ns_) next_beat_ns_ = now_ns + kBeatNs;
  }
  // The latest time at which the loop must turn.
  std::int64_t next_beat_ns() const { return next_beat_ns_; }
  std::int64_t last_turn_ns() const { return last_ns_; }
  // Forgets all pauses so far, and counts one of pause_ns.
  void restart(std::int64_t pause_ns) { longest_ns_ = pause_ns; }
  // The longest pause since the last call.
  std::int64_t take_longest_ns() {
    const std::int64_t longest = longest_ns_;
    longest_ns_ = 0;
    return longest;
  }

 private:
  static constexpr std::int64_t kNone = -1;
  std::int64_t last_ns_ = kNone;
  std::int64_t next_beat_ns_ = 0;
  std::int64_t longest_ns_ = 0;
};

}  // namespace tiercast
