// When does each layer's next packet leave, at line rate? Pacer's rules for runtimes that poll.
//
// As Pacer, but for one thread that asks millions of times a second: the order of departures is
// that of due times, to the nanosecond unless more than 16 layers are due within 64 ns, and no call
// moves more than a few layers, with 100,000 of them too (timing_wheel.h). Pacer serves runtimes
// that sleep, and simulations. Nothing is allocated after construction. Not thread-safe.
#pragma once

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

  // `layers`: 1 .. 1,000,000; ConfigError outside.
  explicit LinePacer(std::uint32_t layers);

  // `rate` counts the same bytes as `packet_bytes` (IP bytes throughout this project);
  // `packet_bytes` >= 1. A stopped layer (rate 0) that starts is due at `now`, or one interval
  // after its last departure if that is later. A change of rate rescales the remaining wait: wait
  // *= new interval / old interval; of an overdue layer the schedule restarts at `now`. Rate 0, a
  // negative rate or NaN stops the layer. Intervals are held to 1 ns .. a day. Layers that do not
  // exist are ignored.
  void set_rate(Time now, Layer layer, Rate rate, std::uint32_t packet_bytes);

  // One departure that is due at `now`, never early; nothing if there is none. Order: by due time;
  // equal ones, and those that are overdue when they are scheduled, take turns. After a stall a
  // layer sends two packets back to back (PROTOCOLS 0.4), then its schedule restarts one interval
  // after `now`. Of the time lost, at most kMaxDebt is made good, by intervals a quarter shorter:
  // a rate with intervals of nanoseconds is kept although the machine takes microseconds away.
  std::optional<Departure> pop(Time now) {
    const Layer layer = wheel_.first(now.ns());
    if (layer == kNone) return std::nullopt;
    Entry& entry = wheel_[layer];
    const Departure departure{layer, Time::nanoseconds(entry.due_ns)};
    std::uint64_t fraction = entry.due_fraction;
    fraction += entry.interval_fraction;
    std::int64_t next_ns =
        entry.due_ns + entry.interval_ns + static_cast<std::int64_t>(fraction >> 32);
    entry.due_fraction = static_cast<std::uint32_t>(fraction);
    if (next_ns > now.ns()) {
      entry.in_backlog = false;
      if (entry.debt_ns > 0) [[unlikely]] {
        const auto step = static_cast<std::uint32_t>(
            std::min<std::int64_t>(entry.debt_ns, entry.interval_ns / kCatchUpShare));
        entry.debt_ns -= step;
        next_ns -= step;
      }
    } else if (!entry.in_backlog) {
      entry.in_backlog = true;
    } else {
      next_ns = restart(entry, now, next_ns);
    }
    entry.last_ns = std::max(now.ns(), entry.due_ns);
    entry.departed = true;
    wheel_.remove(layer);
    wheel_.insert(now.ns(), layer, next_ns);
    wheel_.prepare(2);
    return departure;
  }

  // To be called when there is time: moves the wheel's far entries nearer.
  void prepare() { wheel_.prepare(8); }

  // A layer that will be due at least `ticks` of 64 ns from now, to prefetch its state; kNone.
  Layer ahead(unsigned ticks) const { return wheel_.ahead(ticks); }

  // A lower bound of when pop() is to be called next; Time::never() if no layer runs.
  Time next_departure() const { return Time::nanoseconds(wheel_.bound_ns()); }

  std::uint32_t running() const { return running_; }  // layers with a rate above 0
  // Packets that layers' schedules left out after stalls, since construction. For each layer that
  // runs, departures + left out = what its rate asked for, but for a packet and what is owed still:
  // kMaxDebt and, while it is overdue, the time since then. A layer that stops is owed nothing.
  std::uint64_t given_up() const { return given_up_; }

 private:
  struct alignas(64) Entry : WheelNode {
    std::uint32_t due_fraction = 0;       // 2^-32 ns
    std::int64_t interval_ns = 0;         // 0: stopped
    std::int64_t last_ns = 0;             // of the last departure
    std::uint32_t interval_fraction = 0;  // 2^-32 ns
    std::uint32_t debt_ns = 0;            // lost by stalls, still to be made good
    bool departed = false;                // last_ns is valid
    bool in_backlog = false;              // its last departure left another one overdue
    double left_out = 0;                  // of a packet, 0 .. 1, not yet counted as given up

    double interval() const { return static_cast<double>(interval_ns) + interval_fraction / kUnit; }
  };
  static_assert(sizeof(Entry) == 64, "one cache line");

  static constexpr double kUnit = 4294967296.0;     // 2^32: of the fractions
  static constexpr std::int64_t kCatchUpShare = 4;  // an interval gives a quarter

  // Of a layer that is overdue again: its next due time.
  std::int64_t restart(Entry& entry, Time now, std::int64_t due_ns);
  // So much time was lost in all: what of it is made good is the debt, the rest is counted.
  void owe(Entry& entry, double lost_ns, double max_debt_ns);

  TimingWheel<Entry> wheel_;
  std::uint32_t running_ = 0;
  std::uint64_t given_up_ = 0;
};

}  // namespace tiercast
