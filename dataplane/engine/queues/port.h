// A port: how its link and queue are set, and what they count.
#pragma once

#include <cstdint>
#include <string>

namespace tiercast::engine {

struct PortConfig {
  double rate_bps = 0;              // bit/s of the link; 0: unlimited, the port never queues
  std::uint32_t queue_packets = 0;  // packets that may wait, the one in service not counted; 0: any
  std::uint64_t queue_bytes = 0;    // bytes that may wait (frame + overhead_bytes); 0: any
  std::int64_t delay_ns = 0;        // propagation, after serialisation
  std::int32_t overhead_bytes = 0;  // added to every frame where bytes count: serialisation time
                                    // and queue_bytes. -14: a rate of IP bytes; 20: preamble + gap
  std::int64_t rx_delay_ns = 0;     // applied to frames received on this port, before ingress
  bool fair_queueing = false;       // a queue for each flow, in turn (fair_queue.h); the limits of
                                    // packets and bytes are then each flow's
};

// Counts since the port was added. Bytes are frame bytes (no overhead).
struct PortStats {
  std::uint64_t rx_packets = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t tx_packets = 0;  // handed to Output::transmit
  std::uint64_t tx_bytes = 0;
  std::uint64_t enqueued_packets = 0;  // accepted by the traffic manager, waiting or not
  std::uint64_t dropped_packets = 0;   // queue full
  std::uint64_t dropped_bytes = 0;
  std::uint64_t egress_dropped_packets = 0;  // by the program's egress pipeline
  std::uint32_t queue_packets = 0;           // waiting now, the one in service not counted
  std::uint64_t queue_bytes = 0;             // frame + overhead bytes waiting now
  std::uint32_t max_queue_packets = 0;       // since the last read that reset it
  std::uint64_t max_queue_bytes = 0;
};

// What ports count packets by: a small number made from a header's field, as it is when the packet
// enters a queue. The label is 0 for packets without that header, for those from the CPU port,
// which the control plane sends where it likes, and for all packets if the program does not have
// the field or never reads it in egress.
struct LabelRule {
  std::string header;                                     // its name in the program, such as "ipv4"
  std::string field;                                      // at most 64 bits
  std::uint32_t (*label)(std::uint64_t value) = nullptr;  // null: no rule
};

// What became of the packets with one label that were handed to a port's queue. Each replica and
// clone counts. In packets, since the program was set.
struct LabelCounts {
  std::uint32_t label = 0;
  std::uint64_t entered = 0;  // handed to the queue
  std::uint64_t dropped = 0;  // of these: the queue was full, or the port was removed
  std::uint64_t served = 0;   // of these: their turn came, and the egress pipeline ran
  std::uint64_t waiting() const { return entered - dropped - served; }
  bool operator==(const LabelCounts&) const = default;
};

}  // namespace tiercast::engine
