// When the latest packets left, for schemes whose receivers acknowledge packets and echo the time
// stamp of the one that they answer. Only who has a packet knows its time stamp to the microsecond:
// so an echo proves which packets the receiver can have, and an acknowledgement of others is a
// guess (Savage et al., "TCP Congestion Control with a Misbehaving Receiver": a cumulative nonce
// does the same, but needs a field of its own).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "protocols/base/serial.h"

namespace tiercast {

class Departures {
 public:
  // Remembers this many packets, rounded up to a power of two, of the last 17 minutes. Allocates
  // here alone.
  explicit Departures(std::size_t packets) : ring_(std::bit_ceil(packets)) {}

  // A packet leaves, or leaves again, with this time stamp; they never decrease. `highest`: the
  // highest packet number that has left by then. Copies of a packet that leave at the same instant
  // take one place.
  void note(std::uint32_t stamp_us, std::uint32_t highest) {
    const Departure& last = at(next_ - 1);
    if (next_ != oldest_ && last.stamp_us == stamp_us && last.highest == highest) return;
    at(next_++) = {stamp_us, highest};
    if (next_ - oldest_ > ring_.size()) ++oldest_;
    // Stamps compare only if they are near each other.
    while (stamp_us - at(oldest_).stamp_us > kMaxAgeUs) ++oldest_;
  }

  // What had left when a packet with this time stamp did. Empty: none had it, or it left too long
  // ago.
  struct Left {
    std::uint32_t highest = 0;  // packet number
    std::uint32_t at_once = 0;  // packets up to `highest` that left first with this very time stamp
  };
  std::optional<Left> by(std::uint32_t stamp_us) const {
    const std::size_t after = first_after(stamp_us);
    if (after == oldest_ || at(after - 1).stamp_us != stamp_us) return std::nullopt;
    const std::uint32_t highest = at(after - 1).highest;
    const std::size_t before = first_after(stamp_us - 1);
    return Left{highest, before == oldest_ ? 1 : highest - at(before - 1).highest};
  }

 private:
  static constexpr std::uint32_t kMaxAgeUs = 1 << 30;

  struct Departure {
    std::uint32_t stamp_us = 0;
    std::uint32_t highest = 0;
  };
  // The first departure with a later time stamp.
  std::size_t first_after(std::uint32_t stamp_us) const {
    std::size_t low = oldest_;
    std::size_t high = next_;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (serial_newer(at(middle).stamp_us, stamp_us)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
  Departure& at(std::size_t index) { return ring_[index & (ring_.size() - 1)]; }
  const Departure& at(std::size_t index) const { return ring_[index & (ring_.size() - 1)]; }

  std::vector<Departure> ring_;
  std::size_t oldest_ = 0;
  std::size_t next_ = 0;
};

// The highest packet number that a receiver can have, by all that it has echoed.
class Proof {
 public:
  // An acknowledgement of packets up to `highest` echoes this time stamp. Returns by how many
  // packets it goes beyond what the receiver can have; empty: it has proven nothing yet.
  std::optional<std::uint32_t> beyond(const Departures& departures, std::uint32_t stamp_us,
                                      std::uint32_t highest) {
    const auto now = departures.by(stamp_us);
    if (now && (!proven_ || serial_newer(now->highest, proven_->highest))) {
      proven_ = now;
      echoes_ = 0;
    }
    if (!proven_) return std::nullopt;
    echoes_ += now && now->highest == proven_->highest ? 1 : 0;
    return serial_newer(highest, proven_->highest) ? highest - proven_->highest : 0;
  }
  // Whether that is a lie. Acknowledgements that overtake others may go a little beyond.
  static bool is_lie(std::optional<std::uint32_t> beyond) { return !beyond || *beyond > 3; }
  // The packet that an acknowledgement can be for by its echo alone, once something is proven. Of
  // packets that left at the same instant each echo proves one more.
  std::uint32_t echoed() const {
    return proven_->highest - proven_->at_once + std::min(echoes_, proven_->at_once);
  }

 private:
  std::optional<Departures::Left> proven_;
  std::uint32_t echoes_ = 0;  // of its time stamp
};

}  // namespace tiercast
