// What a receiver has joined, and the counts of what reached it that every scheme keeps.
#pragma once

#include <cstdint>

#include "protocols/core/core.h"

namespace tiercast {

class Reception {
 public:
  // Highest joined rank; -1: none.
  int top() const { return counters_.top; }
  bool joined() const { return counters_.top >= 0; }
  // Packets so far, of all layers.
  std::uint64_t packets() const { return counters_.packets; }

  // Joins and leaves layers one by one, then traces the subscription. `top`: -1 .. kMaxLayers - 1.
  void subscribe(int top, Sink& sink) {
    while (counters_.top < top) sink.join(static_cast<Rank>(++counters_.top));
    while (counters_.top > top) sink.leave(static_cast<Rank>(counters_.top--));
    const TraceField fields[] = {{"top", static_cast<double>(counters_.top)}};
    sink.trace("subscription", fields);
  }

  // A packet of the session's.
  void count(const Arrival& arrival) {
    ++counters_.packets;
    counters_.bytes += arrival.ip_length;
    counters_.marked += arrival.ce ? 1 : 0;
  }
  void lose(std::uint32_t packets) { counters_.lost += packets; }
  // A message that is none of the session's.
  void refuse() { ++counters_.invalid; }

  // Without what only some schemes have: a rate, and an object that is delivered.
  const ReceiverCounters& counters() const { return counters_; }

 private:
  ReceiverCounters counters_;
};

}  // namespace tiercast
