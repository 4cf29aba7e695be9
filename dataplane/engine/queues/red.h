// Random early detection when a packet arrives, before it has a place in the queue (Floyd and
// Jacobson 1993), as ns-2 has it (queue/red.cc) and the traffic managers of real switches do. The
// P4 program has a RED of its own, which decides when a packet departs (docs/p4.md, "RED").
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/engine/queues/port.h"

namespace tiercast::engine {

class Red {
 public:
  enum class Verdict {
    kPass,
    kEarly,  // by chance: marked if it can be, else dropped
    kForced  // the average is above all thresholds: dropped, unless mark_above_max
  };
  static constexpr std::int64_t kBusy = -1;

  // The parameter that is not valid, and what would be; empty: all are.
  static std::string wrong(const RedConfig& config);

  // config: a valid one. seed: of its random numbers.
  Red(const RedConfig& config, std::uint64_t seed) : config_(config), random_(seed) {}

  // The average goes on from where it is.
  void set(const RedConfig& config) { config_ = config; }

  // A packet has arrived and found `waiting` packets, the one in service not counted, and a link of
  // rate_bps (above 0) that had been idle for idle_ns; kBusy: that was sending. To be called for
  // every packet, for those that find the queue full too.
  Verdict arrive(std::uint32_t waiting, std::int64_t idle_ns, double rate_bps);

  // Whether a packet with this verdict gets a mark if it is ECN-capable.
  bool marks(Verdict verdict) const {
    return config_.ecn && (verdict == Verdict::kEarly || config_.mark_above_max);
  }

  // The packet that has just arrived is dropped, and not by chance: its verdict is kForced, or the
  // queue is full. Drops by chance are spread from here on (ns-2 unless ns1_compat_ is set, which
  // it is not by default).
  void forced_drop() { count_ = 0; }

  double average() const { return average_; }  // packets

 private:
  // Fewer waiting: the packet is spared, whatever the average is (red.cc: `qlen > 1`).
  static constexpr std::uint32_t kMinWaiting = 2;

  // The probability that the average alone asks for, p_b, below all thresholds.
  double chance_of_average() const;
  // p_a: what p_b becomes so that drops are spread evenly.
  double spread(double chance) const;

  RedConfig config_;
  std::uint64_t random_;
  double average_ = 0;  // packets
  double count_ = 0;    // packets since the last drop, or since above_ began
  bool above_ = false;  // the last packet found the average above min_th
};

}  // namespace tiercast::engine
