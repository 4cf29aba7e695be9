// Reception for a scheme that takes any gap in a layer's sequence numbers for a loss and measures
// its rate over a window: subscription, counts, gaps of each layer, rate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "protocols/common/gap_detector.h"
#include "protocols/common/rate_meter.h"
#include "protocols/common/reception.h"
#include "protocols/core/core.h"

namespace tiercast {

class LayeredReception {
 public:
  // `rate_window`: the window of the rate, > 0.
  explicit LayeredReception(Duration rate_window) : meter_(rate_window) {}

  // As in Reception.
  int top() const { return counted_.top(); }
  bool joined() const { return counted_.joined(); }
  std::uint64_t packets() const { return counted_.packets(); }
  void refuse() { counted_.refuse(); }

  // As in Reception. A newly joined layer starts without a gap.
  void subscribe(int top, Sink& sink) {
    const auto layers = static_cast<unsigned>(top + 1);
    for (auto rank = static_cast<unsigned>(counted_.top() + 1); rank < layers; ++rank) {
      gaps_[rank].reset();
    }
    counted_.subscribe(top, sink);
  }

  // How the packet stands to those before it on its layer, which must be joined. A stray one is
  // refused: the caller ignores it.
  GapDetector::Packet receive(Time now, Rank rank, std::uint32_t seq, const Arrival& arrival) {
    const GapDetector::Packet packet = gaps_[rank].receive(seq);
    if (packet.order == GapDetector::Order::kStray) {
      counted_.refuse();
      return packet;
    }
    counted_.count(arrival);
    counted_.lose(packet.lost);
    meter_.add(now, arrival.ip_length);
    return packet;
  }

  Rate rate(Time now) const { return meter_.rate(now); }

  ReceiverCounters counters(Time now) const {
    ReceiverCounters counters = counted_.counters();
    counters.rate = rate(now);
    return counters;
  }

 private:
  Reception counted_;
  std::array<GapDetector, kMaxLayers> gaps_;
  mutable RateMeter meter_;
};

}  // namespace tiercast
