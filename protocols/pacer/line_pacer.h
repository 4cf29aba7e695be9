// Decides when each layer's next packet leaves, at line rate: Pacer's rules for runtimes that poll.
//
// Like Pacer, but for one thread that asks millions of times a second. Departures come in the order
// of their due times, exact to the nanosecond unless more than 16 layers are due within 64 ns. No
// call moves more than a few layers, even with 100,000 of them (timing_wheel.h). Runtimes that
// sleep, and simulations, use Pacer. Nothing is allocated after construction. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "protocols/base/units.h"
#include "protocols/pacer/timing_wheel.h"

namespace tiercast {

class LinePacer {
 public:
  using Layer = std::uint32_t;
  static constexpr Layer kNone = 0xffffffff;

  static constexpr Duration kMaxDebt = Duration::milliseconds(1);

  struct Departure {
    Layer layer;
    Time due;  // when it should leave; `now - due` is the lateness
  };

  // `layers`: 1 .. 1,000,000. ConfigError outside this range.
  explicit LinePacer(std::uint32_t layers);

  // `rate` counts the same bytes as `packet_bytes` (IP bytes throughout this project);
  // `packet_bytes` >= 1. When a stopped layer (rate 0) starts, it is due at `now`, or one interval
  // after its last departure if that is later. A change of rate rescales the remaining wait: wait
  // *= new interval / old interval. If the layer is overdue, its schedule restarts at `now`. Rate
  // 0, a negative rate or NaN stops the layer. Intervals are limited to 1 ns .. a day. Layers that
  // do not exist are ignored.
  void set_rate(Time now, Layer layer, Rate rate, std::uint32_t packet_bytes);

  // Returns one departure that is due at `now`, never an early one; nothing if none is due. The
  // order is by due time. Layers with equal due times, and layers already overdue when they are
  // scheduled, take turns. After a stall a layer sends two packets back to back (PROTOCOLS 0.4),
  // then its schedule restarts one interval after `now`. At most kMaxDebt of the lost time is made
  // good, by intervals that are at most a quarter shorter. So a rate with intervals of nanoseconds
  // is kept although the machine takes microseconds away.
  std::optional<Departure> pop(Time now) { return pop(now, now); }

  // The same for a caller that prepares packets ahead: returns one that is due by `until`. It is
  // taken to leave at the first poll (a call with another `now`) at or after its due time. A layer
  // has only one such packet at a time: nothing further of it is returned until that one is due.
  std::optional<Departure> pop(Time now, Time until) {
    if (now.ns() != poll_ns_) {
      poll_before_ns_ = poll_ns_;
      poll_ns_ = now.ns();
    }
    const Layer layer = wheel_.first(until.ns());
    if (layer == kNone) return std::nullopt;
    Entry& entry = wheel_[layer];
    const std::int64_t due_ns = entry.due_ns;
    if (due_ns > now.ns() && entry.last_ns > now.ns()) return std::nullopt;
    const std::uint64_t fraction = std::uint64_t{entry.due_fraction} + entry.interval_fraction;
    std::int64_t next_ns = due_ns + entry.interval_ns + static_cast<std::int64_t>(fraction >> 32);
    entry.due_fraction = static_cast<std::uint32_t>(fraction);
    if (next_ns > now.ns()) {
      entry.in_backlog = false;
      if (entry.debt_ns > 0) [[unlikely]] {
        const auto step = static_cast<std::uint32_t>(
            std::min({std::int64_t{entry.debt_ns / kCatchUpPackets + 1},
                      entry.interval_ns / kCatchUpShare, next_ns - now.ns() - 1}));
        entry.debt_ns -= step;
        next_ns -= step;
      }
    } else if (entry.in_backlog || entry.last_ns > poll_before_ns_) {
      next_ns = restart(entry, now, next_ns);  // the previous one leaves now, or left late as well
    } else {
      entry.in_backlog = true;
    }
    entry.last_ns = std::max(now.ns(), due_ns);
    wheel_.prefetch_next(layer);
    wheel_.remove(layer);
    wheel_.insert(now.ns(), layer, next_ns);
    wheel_.prepare(2);
    return Departure{layer, Time::nanoseconds(due_ns)};
  }

  // To be called when there is time to spare: moves far entries of the wheel nearer.
  void prepare() { wheel_.prepare(8); }

  // The earliest time at which pop() may return something (a lower bound). Time::never() if no
  // layer runs.
  Time next_departure() const { return Time::nanoseconds(wheel_.bound_ns()); }

  std::uint32_t running() const { return running_; }  // layers with a rate above 0
  // Packets that schedules have skipped after stalls, since construction. For each running layer,
  // departures + skipped packets = what its rate asked for, except for one packet and what is still
  // owed: kMaxDebt and, while the layer is overdue, the time since then. A stopped layer is owed
  // nothing.
  std::uint64_t given_up() const { return given_up_; }

 private:
  struct alignas(64) Entry : WheelNode {
    std::uint32_t due_fraction = 0;       // 2^-32 ns
    std::int64_t interval_ns = 0;         // 0: stopped
    std::int64_t last_ns = INT64_MIN;     // time of the last departure
    std::uint32_t interval_fraction = 0;  // 2^-32 ns
    std::uint32_t debt_ns = 0;            // time lost in stalls that is still to be made good
    bool in_backlog = false;  // after its last departure, the next one was overdue already
    double left_out = 0;      // part of a packet, 0 .. 1, not yet counted in given_up

    double interval() const { return static_cast<double>(interval_ns) + interval_fraction / kUnit; }
  };
  static_assert(sizeof(Entry) == 64, "one cache line");

  static constexpr double kUnit = 4294967296.0;  // 2^32: scale of the fractions
  // The part of the debt that one interval makes good, limited to a quarter of the interval. Spread
  // like this, short stalls, which are frequent, hardly show in the gaps.
  static constexpr std::uint32_t kCatchUpPackets = 4096;
  static constexpr std::int64_t kCatchUpShare = 4;

  // For a layer that is overdue again: its next due time.
  std::int64_t restart(Entry& entry, Time now, std::int64_t due_ns);
  // Of lost_ns lost in all, up to max_debt_ns becomes the debt to make good; the rest counts as
  // given up.
  void owe(Entry& entry, double lost_ns, double max_debt_ns);

  TimingWheel<Entry> wheel_;
  std::int64_t poll_ns_ = INT64_MIN;         // time of the last call
  std::int64_t poll_before_ns_ = INT64_MIN;  // the last different time before poll_ns_
  std::uint32_t running_ = 0;
  std::uint64_t given_up_ = 0;
};

}  // namespace tiercast
