// Decides when each layer's next packet leaves: a hierarchical timing wheel. The caller passes the
// time.
//
// One Pacer serves all layers of all sessions of a sender. A layer's packets are due exactly
// bytes/rate apart. Due times are kept per layer in nanoseconds with a fraction, so they do not
// depend on the wheel's tick or on rounding, and a late caller does not make lateness accumulate. A
// departure costs the same with five layers as with 100,000. Nothing is allocated after
// construction. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "protocols/base/units.h"

namespace tiercast {

class Pacer {
 public:
  using Layer = std::uint32_t;

  struct Departure {
    Layer layer;
    Time due;  // when it should have left; `now - due` is the lateness
  };

  static constexpr unsigned kMaxBurst = 2;                           // PROTOCOLS 0.4
  static constexpr Duration kTick = Duration::nanoseconds(1 << 10);  // width of a slot

  // `layers`: 1 .. 1,000,000. ConfigError outside this range.
  explicit Pacer(std::uint32_t layers);

  // `rate` counts the same bytes as `packet_bytes` (IP bytes throughout this project);
  // `packet_bytes` >= 1. When a stopped layer (rate 0) starts, it is due at `now`, or one interval
  // after its last departure if that is later. A change of rate rescales the remaining wait: wait
  // *= new interval / old interval. Rate 0, a negative rate or NaN stops the layer. Layers that do
  // not exist are ignored.
  void set_rate(Time now, Layer layer, Rate rate, std::uint32_t packet_bytes);

  // When to call pop() next; Time::never() if no layer runs. After a change of rate this may be too
  // early, which is harmless: pop() returns nothing, and the next answer is right.
  Time next_departure() const;

  // Returns one departure that is due at `now`, never an early one; nothing if none is due. The
  // order is by due time, to within kTick. Layers that are due in the same tick leave in the order
  // in which they were scheduled, so they take turns. After a stall a layer sends kMaxBurst packets
  // back to back, then its schedule restarts one interval after `now`.
  std::optional<Departure> pop(Time now);

 private:
  static constexpr unsigned kTickShift = 10;  // 1.024 us
  static constexpr unsigned kLevelBits =
      12;  // slots of a level; the levels span 4.2 ms, 17 s, 19.5 h and 9 years
  static constexpr unsigned kLevels = 4;
  static constexpr std::uint32_t kSlots = 1u << kLevelBits;
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Entry {
    std::int64_t due_ns = 0;
    double due_fraction = 0;  // ns, 0 .. 1
    double interval_ns = 0;   // 0: stopped
    std::int64_t last_ns = 0;
    std::uint32_t next = kNone;
    std::uint32_t previous = kNone;
    std::uint32_t slot = kNone;  // level * kSlots + index; kNone: not in a slot
    bool departed = false;       // whether last_ns is valid
    bool in_backlog = false;     // after its last departure, the next one was overdue already
  };

  struct Slot {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    std::int64_t min_due_ns = 0;  // lower bound: minimum over all entries inserted since the slot
                                  // was empty
  };

  // Which slots of a level hold entries: one bit per slot, and one bit per word of these bits.
  struct Occupied {
    std::uint64_t summary = 0;
    std::array<std::uint64_t, kSlots / 64> words{};
    void set(std::uint32_t index);
    void clear(std::uint32_t index);
    std::uint32_t first_from(std::uint32_t index) const;  // kNone if no slot at or after index is
                                                          // occupied
  };

  void insert(Layer layer);
  void remove(Layer layer);
  // The first slot in time that holds an entry; kNone if all are empty.
  std::uint32_t first_slot() const;
  void cascade(std::uint32_t slot);

  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
  std::array<Occupied, kLevels> occupied_;
  std::uint64_t current_tick_ = 0;  // no entry is in a slot before this one
};

}  // namespace tiercast
