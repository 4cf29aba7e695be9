// What a receiver of layers has joined and received: its subscription, each layer's gaps, its
// counters and rate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "protocols/common/gap_detector.h"
#include "protocols/common/rate_meter.h"
#include "protocols/core/core.h"

namespace tiercast {

class LayeredReception {
 public:
  // `rate_window` > 0: that of the rate in counters().
  explicit LayeredReception(Duration rate_window) : meter_(rate_window) {}

  // Highest joined rank; -1: none.
  int top() const { return counters_.top; }
  // Packets so far, of all layers.
  std::uint64_t packets() const { return counters_.packets; }

  // Joins and leaves layers one by one, then traces the subscription. A layer that is joined begins
  // without a gap. `top`: -1 .. kMaxLayers - 1.
  void subscribe(int top, Sink& sink) {
    for (; counters_.top < top; ++counters_.top) {
      gaps_[static_cast<std::size_t>(counters_.top + 1)].reset();
      sink.join(static_cast<Rank>(counters_.top + 1));
    }
    for (; counters_.top > top; --counters_.top) sink.leave(static_cast<Rank>(counters_.top));
    const TraceField fields[] = {{"top", static_cast<double>(counters_.top)}};
    sink.trace("subscription", fields);
  }

  // Packets lost before this one of a joined layer.
  std::uint32_t receive(Time now, Rank rank, std::uint32_t seq, const Arrival& arrival) {
    const std::uint32_t lost = gaps_[rank].receive(seq);
    ++counters_.packets;
    counters_.bytes += arrival.ip_length;
    counters_.marked += arrival.ce ? 1 : 0;
    counters_.lost += lost;
    meter_.add(now, arrival.ip_length);
    return lost;
  }
  // A message that is none of the session's.
  void refuse() { ++counters_.invalid; }

  ReceiverCounters counters(Time now) const {
    ReceiverCounters counters = counters_;
    counters.rate = meter_.rate(now);
    return counters;
  }

 private:
  ReceiverCounters counters_;
  std::array<GapDetector, kMaxLayers> gaps_;
  mutable RateMeter meter_;
};

}  // namespace tiercast
