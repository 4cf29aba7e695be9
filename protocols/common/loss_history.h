// TFRC's loss history (RFC 5348, 5; PROTOCOLS 0.3): the loss event rate of one sequence of packets,
// from the lengths of its last eight loss intervals. Constant memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "protocols/base/units.h"

namespace tiercast {

class LossHistory {
 public:
  struct Options {
    // A packet counts as lost once so many later ones have arrived (RFC 5348's NDUPACK); 1: at
    // once, for a path that keeps order. 1 .. kMaxLater.
    unsigned later_packets = 1;
    // Old intervals weigh no less than this because the open one is long; 1: no discounting.
    double discount_floor = 0.25;
  };
  struct Report {
    std::uint32_t lost = 0;  // packets now known to be missing
    unsigned events = 0;     // loss events that began with these or with the mark
    bool first = false;      // the first of them all is among them: set_first_interval() is due
    bool resynchronised = false;  // the sender must have restarted: everything was forgotten
  };

  LossHistory() = default;
  explicit LossHistory(const Options& options);

  // A packet arrived. A loss or mark (`ce`) begins a new loss event if it happened more than
  // `window` (one round-trip time) after the last event began; the time of a loss is interpolated
  // between its neighbours' (RFC 5348, 5.2). Late and duplicate packets change nothing. A jump of
  // more than GapDetector's bounds resynchronises.
  Report receive(Time now, std::uint32_t seq, bool ce, Duration window);

  // The length, in packets, of the interval before the first event, which cannot be measured. At
  // least 2, and at least the packets that were counted. May be called again when it is known
  // better, for as long as that interval is in the history; afterwards it has no effect.
  void set_first_interval(double packets);

  // p: 0 before the first event, else above 0 and at most 1.
  double loss_event_rate() const;
  // Events since reset() or resynchronisation.
  std::uint64_t events() const { return events_; }
  // Packets since the last event began, or since the first packet.
  std::uint32_t open_interval() const;
  // The intervals that are closed, and the i-th latest of them (from 0), in packets.
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
  struct Early {  // arrived before others that have lower numbers
    std::uint32_t seq;
    Time at;
  };

  void lose_hole(const Early& after, Duration window, Report& report);
  void congestion(Time at, std::uint32_t seq, Duration window, Report& report);
  void take_in_order();
  double mean_closed() const;
  double discount() const;  // DF

  Options options_;
  bool started_ = false;
  std::uint32_t expected_ = 0;            // all before it have arrived or are lost
  Time in_order_at_;                      // when the one before it arrived
  std::array<Early, kMaxLater> early_{};  // ascending
  std::size_t early_count_ = 0;

  std::uint64_t events_ = 0;
  Time event_at_;
  std::uint32_t interval_start_ = 0;  // number of the packet that the open interval starts with
  std::array<Interval, kIntervals> intervals_{};  // closed, latest first
  std::size_t closed_ = 0;
  double counted_first_ = 0;  // packets before the first event
};

}  // namespace tiercast
