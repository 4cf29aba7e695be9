// TFRC's loss history (RFC 5348, 5; PROTOCOLS 0.3). It gives the loss event rate of one sequence of
// packets from the lengths of its last eight loss intervals, in constant memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "protocols/base/units.h"

namespace tiercast {

class LossHistory {
 public:
  struct Options {
    // A packet counts as lost once this many later ones have arrived (NDUPACK in RFC 5348), 1 to
    // kMaxLater. With 1 it counts at once, which suits a path that keeps order.
    unsigned later_packets = 1;
    // The smallest weight of old intervals when the open one is long (RFC 5348, 5.5); 1: no
    // discounting.
    double discount_floor = 0.25;
  };
  struct Report {
    std::uint32_t lost = 0;  // packets now known to be missing
    unsigned events = 0;     // loss events that began with these losses, or with the mark
    bool first = false;      // the very first event is among them, so set_first_interval() is due
  };

  LossHistory() = default;
  explicit LossHistory(const Options& options);

  // Takes a packet that arrived. A loss or mark (`ce`) starts a new loss event if it happened more
  // than `window` (one round-trip time) after the last event began. The time of a loss is
  // interpolated between those of its neighbours (RFC 5348, 5.2). Late and duplicate packets change
  // nothing. A packet that a GapDetector calls stray must not come here, and before one that shows
  // a restart comes reset().
  Report receive(Time now, std::uint32_t seq, bool ce, Duration window);

  // Sets the length in packets of the interval before the first event, which cannot be measured, at
  // least 1; until then it is the number of packets seen. May be called again with a better value
  // while that interval is in the history; after that it has no effect.
  void set_first_interval(double packets);
  // Packets that were seen before the first event, at least 2; 0 before it.
  double counted_first_interval() const { return counted_first_; }

  // The loss event rate p: 0 before the first event, then above 0 and at most 1.
  double loss_event_rate() const;
  // Events since reset().
  std::uint64_t events() const { return events_; }
  // I_0: packets from the last event's first one, or the first packet, to the highest that has
  // arrived (RFC 5348, 5.3).
  double open_interval() const;
  // The number of closed intervals, and the length in packets of the i-th latest of them (from 0).
  std::size_t closed_intervals() const { return closed_; }
  double closed_interval(std::size_t i) const { return intervals_[i].packets; }

  void reset();

  static constexpr std::size_t kIntervals = 8;
  static constexpr unsigned kMaxLater = 8;

 private:
  struct Interval {
    double packets = 0;
    double discount = 1;  // DF_i
  };
  struct Early {  // a packet that arrived before others with lower numbers
    std::uint32_t seq;
    Time at;
  };

  void lose_hole(const Early& after, Duration window, Report& report);
  void congestion(Time at, std::uint32_t seq, Duration window, Report& report);
  void take_in_order();
  void advance_to(std::uint32_t seq);
  std::uint64_t position_of(std::uint32_t seq) const;
  double packets_since_start(std::uint64_t position) const;  // of the open interval
  double mean_closed() const;
  double discount(double open) const;  // DF

  Options options_;
  bool started_ = false;
  std::uint32_t expected_ = 0;            // all packets before this number have arrived or are lost
  Time in_order_at_;                      // when packet expected_ - 1 arrived
  std::array<Early, kMaxLater> early_{};  // in ascending order
  std::size_t early_count_ = 0;

  std::uint64_t events_ = 0;
  Time event_at_;
  // Packet numbers wrap within an interval of hours; positions do not.
  std::uint64_t position_ = 0;                    // of expected_, counted from the first packet
  std::uint64_t interval_start_ = 0;              // of the packet that starts the open interval
  std::array<Interval, kIntervals> intervals_{};  // closed, latest first
  std::size_t closed_ = 0;
  double counted_first_ = 0;  // packets seen before the first event
};

}  // namespace tiercast
