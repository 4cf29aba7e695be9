// Decides when the data packets of one session leave: those of a rate when a Pacer says so, and
// those that a window has released at once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "protocols/core/core.h"
#include "protocols/pacer/pacer.h"

namespace tiercast {

// One data packet that leaves now.
struct Departure {
  Rank layer;
  Time due;  // when it should have left; for released packets: now
};

class SessionPacing {
 public:
  explicit SessionPacing(const SessionConfig& config)
      : packet_size_(config.packet_size), pacer_(config.layers) {}

  void set_rate(Time now, Rank layer, Rate rate) {
    rates_[layer] = rate;
    pacer_.set_rate(now, layer, rate, packet_size_);
  }
  void release(Rank layer, std::uint32_t packets) {
    released_[layer] += packets;
    waiting_ += packets;
  }

  // Each returns one departure, or nothing. Released packets leave layer by layer, from the bottom.
  std::optional<Departure> pop_paced(Time now) {
    if (const auto departure = pacer_.pop(now)) {
      return Departure{static_cast<Rank>(departure->layer), departure->due};
    }
    return std::nullopt;
  }
  std::optional<Departure> pop_released(Time now) {
    if (waiting_ == 0) return std::nullopt;
    Rank layer = 0;
    while (released_[layer] == 0) ++layer;
    --released_[layer];
    --waiting_;
    return Departure{layer, now};
  }

  // When to ask next: `now` while released packets wait, Time::never() if nothing is to leave.
  Time next_departure(Time now) const { return waiting_ > 0 ? now : pacer_.next_departure(); }
  Rate rate(Rank layer) const { return rates_[layer]; }  // as last set

 private:
  std::uint32_t packet_size_;
  Pacer pacer_;
  std::array<Rate, kMaxLayers> rates_{};
  std::array<std::uint32_t, kMaxLayers> released_{};  // packets that may leave at once
  std::uint64_t waiting_ = 0;                         // sum of released_
};

}  // namespace tiercast
