// What the sequence numbers of one stream say: lost, duplicate and reordered packets (RFC 4737).
//
// A packet is in order if its number is at least NextExp, which is one above the highest number so
// far; otherwise it is type-P-reordered (RFC 4737 section 3.3). Of copies only the first counts
// (section 3.2, "duplicates"). The extent of a reordered packet is the number of packets that
// arrived from the earliest one with a greater number on (section 4.2.1); that one is the packet
// that opened the gap which the reordered packet belongs to.
//
// Memory is fixed. Of the kWindow numbers below NextExp it knows which arrived; older packets
// cannot be told from duplicates, and count as `stale`. It knows where the kGaps latest gaps were
// opened; for packets of older gaps the extent is unknown, and counted as such.
//
// A sender that starts again begins with another number. Where packets have the sender's time, that
// is seen from one with an older number that was sent later. Elsewhere it is seen from kRestartRun
// packets in a row whose numbers follow each other and are out of place (after RFC 3550 appendix
// A.1). Then a new epoch begins: the loss of the epochs before stays.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/counter.h"

namespace tiercast::streams {

// What became of one packet.
enum class Order : std::uint8_t {
  kInOrder,
  kReordered,
  kDuplicate,
  kStale,    // too old for the window, or far away from all others
  kRestart,  // a new epoch has begun; if its first packets counted as stale, they no longer do
};

// What the sender's clock says about a packet and the latest one of the epoch.
enum class Departure : std::uint8_t {
  kUnknown,  // no time in the packet, or a scheme that sends packets again under their number
  kLater,
  kNotLater,
};

// One thread calls arrive(); others may read the counters. A packet that follows its predecessor
// touches the first cache line alone: of the numbers from dense_from_ on all arrived, and the
// window is only written when a gap ends that run.
class alignas(64) Sequence {
 public:
  static constexpr std::uint32_t kWindow = 1024;
  static constexpr std::uint32_t kGaps = 30;
  // A jump ahead by more packets than this is not taken for a loss: 1.1 s of 10 Gbit/s in frames of
  // 64 bytes.
  static constexpr std::uint32_t kMaxDropout = 1u << 24;
  static constexpr std::uint32_t kUnknown = 0;
  static constexpr std::uint32_t kRestartRun = 4;

  Order arrive(std::uint32_t seq, Departure departure);
  // For kReordered: the extent of the latest packet, at least 1; kUnknown: its gap is forgotten.
  std::uint32_t extent() const { return extent_; }

  bool started() const { return epochs_.get() > 0; }
  std::uint64_t in_order() const { return in_order_.get(); }
  std::uint64_t reordered() const { return reordered_.get(); }
  std::uint64_t duplicates() const { return duplicates_.get(); }
  std::uint64_t stale() const { return stale_.get(); }
  std::uint64_t restarts() const { return epochs_.get() - (epochs_.get() > 0 ? 1 : 0); }
  // Numbers from the first to the highest of each epoch that have not arrived (so far).
  std::uint64_t lost() const { return lost_.get(); }

 private:
  struct Gap {
    std::uint32_t first = 0;    // missing number
    std::uint32_t arrival = 0;  // arrival number of the packet that opened it
  };

  void begin(std::uint32_t seq);
  void advance(std::uint32_t seq, std::uint32_t missing);
  Order out_of_place(std::uint32_t seq, Departure departure);
  void find_extent(std::uint32_t seq);

  // `seq`: one of the window's.
  bool arrived(std::uint32_t seq) const {
    return seq - dense_from_ < next_ - dense_from_ ||
           (window_[seq % kWindow / 64] >> (seq % 64) & 1) != 0;
  }
  // Writes the window's bits of the numbers from `first` up to before `end`, at most kWindow.
  void write_bits(std::uint32_t first, std::uint32_t end, bool value);

  std::uint32_t next_ = 0;        // NextExp
  std::uint32_t first_ = 0;       // lowest number of the epoch, or of the window
  std::uint32_t dense_from_ = 0;  // not more than kWindow below NextExp
  std::uint32_t arrivals_ = 0;    // packets of the epoch without duplicates, modulo 2^32
  std::uint8_t odd_run_ = 0;      // packets out of place whose numbers follow each other
  std::uint8_t gaps_ = 0;         // valid ones
  std::uint8_t newest_gap_ = 0;
  Counter in_order_, reordered_, duplicates_, lost_, epochs_;
  alignas(
      64) std::array<std::uint64_t, kWindow / 64> window_{};  // of the numbers below dense_from_
  std::array<Gap, kGaps> gap_{};
  std::uint32_t extent_ = kUnknown;
  std::uint32_t odd_ = 0;  // the number after that of the latest packet out of place
  Counter stale_;
};

}  // namespace tiercast::streams
