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
#include <span>

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
  // good, by an extra packet now and then, in the middle of an interval. So a rate with intervals
  // of nanoseconds is kept although the machine takes microseconds away.
  std::optional<Departure> pop(Time now) { return pop(now, now); }

  // The same for a caller that prepares packets ahead: returns one that is due by `until`. It is
  // taken to leave at the first poll (a call with another `now`) at or after its due time. A layer
  // has only one such packet at a time: nothing further of it is returned until that one is due.
  std::optional<Departure> pop(Time now, Time until) {
    Departure departure;
    if (pop(now, until, std::span(&departure, 1)) == 0) return std::nullopt;
    return departure;
  }

  // The same for as many as `departures` has room for. Returns how many it wrote.
  std::size_t pop(Time now, Time until, std::span<Departure> departures) {
    if (now.ns() != poll_ns_) {
      poll_before_ns_ = poll_ns_;
      poll_ns_ = now.ns();
    }
    std::size_t count = 0;
    while (count < departures.size()) {
      const Layer layer = wheel_.first(until.ns());
      if (layer == kNone) break;
      Entry& entry = wheel_[layer];
      const std::int64_t due_ns = entry.due_ns;
      if (due_ns > now.ns() && entry.last_ns > now.ns()) break;
      wheel_.prefetch_next(layer);
      const std::int64_t next_ns = next_due(entry, now);
      entry.last_ns = std::max(now.ns(), due_ns);
      wheel_.reschedule_first(now.ns(), layer, next_ns);
      departures[count].layer = layer;
      departures[count].due = Time::nanoseconds(due_ns);
      ++count;
    }
    wheel_.prepare(static_cast<unsigned>(2 * count));
    return count;
  }

  // To be called when there is time to spare: moves far entries of the wheel nearer.
  void prepare() { wheel_.prepare(8); }

  // The earliest time at which pop() may return something (a lower bound). Time::never() if no
  // layer runs.
  Time next_departure() const { return Time::nanoseconds(wheel_.bound_ns()); }

  std::uint32_t running() const { return running_; }  // layers with a rate above 0
  // Packets that schedules have skipped after stalls, since construction. For each running layer,
  // departures + skipped packets = what its rate asked for, except for one packet and what is still
  // owed: kMaxDebt, a packet and, while the layer is overdue, the time since then. A stopped layer
  // is owed nothing.
  std::uint64_t given_up() const { return given_up_; }

 private:
  struct alignas(64) Entry : WheelNode {
    std::uint32_t due_fraction = 0;       // 2^-32 ns
    std::int64_t interval_ns = 0;         // 0: stopped
    std::int64_t last_ns = INT64_MIN;     // time of the last departure
    std::uint32_t interval_fraction = 0;  // 2^-32 ns
    float extra_share = 0;    // of the next extra packet, 0 .. 1: what has come together
    double owed = 0;          // packets lost in stalls, neither made good nor given up
    bool in_backlog = false;  // after its last departure, the next one was overdue already
    bool extra = false;       // what is due next is an extra packet

    double interval() const { return static_cast<double>(interval_ns) + interval_fraction / kUnit; }
  };
  static_assert(sizeof(Entry) == 64, "one cache line");

  static constexpr double kUnit = 4294967296.0;  // 2^32: scale of the fractions
  // Each departure of a layer that is owed packets adds this part of them to the next extra packet,
  // and a nanosecond's worth, at most a quarter of a packet in all. So short stalls, which are
  // frequent, disturb few gaps.
  static constexpr double kCatchUp = 1.0 / 4096;
  static constexpr double kMostCatchUp = 0.25;

  // For a layer that departs: its next due time.
  std::int64_t next_due(Entry& entry, Time now) {
    std::int64_t next_ns = entry.due_ns;
    if (entry.extra) [[unlikely]] {
      entry.extra = false;
      next_ns += entry.interval_ns / 2;
    } else {
      const std::uint64_t fraction = std::uint64_t{entry.due_fraction} + entry.interval_fraction;
      entry.due_fraction = static_cast<std::uint32_t>(fraction);
      next_ns += entry.interval_ns + static_cast<std::int64_t>(fraction >> 32);
    }
    if (next_ns > now.ns()) {
      entry.in_backlog = false;
      return entry.owed < 1 ? next_ns : catch_up(entry, now, next_ns);
    }
    if (!entry.in_backlog && entry.last_ns <= poll_before_ns_) {
      entry.in_backlog = true;
      return next_ns;
    }
    // The previous one leaves now, or left late as well: the schedule starts again.
    entry.in_backlog = false;
    const std::int64_t restarted_ns = now.ns() + entry.interval_ns;
    lose(entry, static_cast<double>(restarted_ns - next_ns));
    return restarted_ns;
  }
  // The same for one that is owed packets and would depart next at `next_ns`, after `now`.
  std::int64_t catch_up(Entry& entry, Time now, std::int64_t next_ns);
  // The layer falls behind by `ns`. What it is owed in all counts as given up as far as it exceeds
  // kMaxDebt, in whole packets.
  void lose(Entry& entry, double ns) {
    const double per_ns = 1 / entry.interval();
    entry.owed += ns * per_ns;
    const double excess = entry.owed - kMaxDebt.ns() * per_ns;
    if (excess >= 1) give_up(entry, excess);
  }
  void give_up(Entry& entry, double packets) {
    const auto whole = static_cast<std::int64_t>(packets);
    given_up_ += static_cast<std::uint64_t>(whole);
    entry.owed -= static_cast<double>(whole);
  }

  TimingWheel<Entry> wheel_;
  std::int64_t poll_ns_ = INT64_MIN;         // time of the last call
  std::int64_t poll_before_ns_ = INT64_MIN;  // the last different time before poll_ns_
  std::uint32_t running_ = 0;
  std::uint64_t given_up_ = 0;
};

}  // namespace tiercast
