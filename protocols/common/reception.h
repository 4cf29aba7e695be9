// What a receiver has joined, and the counts of received packets that every scheme keeps.
#pragma once

#include <cstdint>

#include "protocols/core/core.h"

namespace tiercast {

class Reception {
 public:
  // Highest joined rank; -1: none.
  int top() const { return counters_.top; }
  bool joined() const { return counters_.top >= 0; }
  // Packets received so far, on all layers.
  std::uint64_t packets() const { return counters_.packets; }

  // Joins and leaves layers one by one, then traces the subscription. `top`: -1 .. kMaxLayers - 1.
  void subscribe(int top, Sink& sink) {
    while (counters_.top < top) sink.join(static_cast<Rank>(++counters_.top));
    while (counters_.top > top) sink.leave(static_cast<Rank>(counters_.top--));
    const TraceField fields[] = {{"top", static_cast<double>(counters_.top)}};
    sink.trace("subscription", fields);
  }

  // Counts a packet of the session.
  void count(const Arrival& arrival) {
    ++counters_.packets;
    counters_.bytes += arrival.ip_length;
    counters_.marked += arrival.ce ? 1 : 0;
  }
  void lose(std::uint32_t packets) { counters_.lost += packets; }
  // Counts a message that does not belong to the session.
  void refuse() { ++counters_.invalid; }

  // Without the values that only some schemes have: the rate, and the delivered object.
  const ReceiverCounters& counters() const { return counters_; }

 private:
  ReceiverCounters counters_;
};

}  // namespace tiercast
