// A port: the settings of its link and queue, and its counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tiercast::engine {

// Random early detection on arrival (red.h). Queue lengths are in packets, the one in service not
// counted. Defaults: ns-2's at the time of the papers.
struct RedConfig {
  double min_th = 5;               // of the average: 0 or more, below max_th
  double max_th = 15;              // at most 2^31
  double max_p = 0.1;              // probability at max_th: above 0, at most 1 (ns-2: 1/linterm_)
  double weight = 0.002;           // of a new length in the average: above 0, at most 1 (q_weight_)
  double mean_packet_bytes = 500;  // of the packets that an idle link could have sent: 1 or more
  bool gentle = false;             // from max_th to 2 max_th the probability rises to 1
  bool wait = true;                // drops are 1/p to 2/p packets apart, not 1 to 1/p
  bool ecn = false;                // ECT packets are marked where others are dropped early
  bool mark_above_max = false;     // and above all thresholds, too
  bool operator==(const RedConfig&) const = default;
};

// Two queues, one of which is served first (priority_queues.h).
struct PriorityConfig {
  double low_share =
      0;  // of the bytes sent while both queues wait, for priority 0; below 1. 0: none
  bool operator==(const PriorityConfig&) const = default;
};

// Loss in bursts: Gilbert's and Elliott's model with its four probabilities, netem's `gemodel p r
// 1-h 1-k`. A packet is lost with the probability of the state that it finds; then the state may
// change. to_bad 0: loss at random, with probability in_good.
struct LossModel {
  double to_bad = 0;   // p
  double to_good = 0;  // r
  double in_bad = 0;   // 1-h
  double in_good = 0;  // 1-k
  bool operator==(const LossModel&) const = default;
};

// What happens to frames on a wire (wire.h), in this order: lost, delayed, duplicated.
struct WireConfig {
  static constexpr std::int64_t kMaxDelayNs = 60'000'000'000;
  bool up = true;  // false: everything is lost, and what waits for the wire, too
  LossModel loss{};
  std::int64_t jitter_ns = 0;  // the delay is longer by up to this, uniformly; frames stay in
                               // order
  double reorder = 0;          // share of the frames that are held,
  std::int64_t reorder_delay_ns = 0;  // for so long after the others, which may overtake them
  double duplicate = 0;               // share of the frames of which a copy follows at once
  bool operator==(const WireConfig&) const = default;
};

struct PortConfig {
  double rate_bps = 0;              // bit/s of the link; 0: unlimited, so the port never queues
  std::uint32_t queue_packets = 0;  // packets that may wait, not counting the one in service; 0:
                                    // any number
  std::uint64_t queue_bytes = 0;    // bytes that may wait (frame + overhead_bytes); 0: any number
  std::int64_t delay_ns = 0;        // propagation delay, after serialisation
  std::int32_t overhead_bytes = 0;  // added to a frame's bytes in the serialisation time and in
                                    // queue_bytes. -14: the rate counts IP bytes; 20: preamble and
                                    // gap count
  std::int64_t rx_delay_ns = 0;     // delays frames received on this port, before ingress
  bool fair_queueing = false;       // one queue per flow, served in turn (fair_queue.h); the limits
                                    // of packets and bytes then apply to each flow
  bool layered = false;  // with fair_queueing: a session that exceeds them loses its highest layer
  std::optional<PriorityConfig> priority = std::nullopt;  // not with fair_queueing; the limits
                                                          // apply to both queues together
  std::optional<RedConfig> red = std::nullopt;  // for all flows together; no effect without a rate
  WireConfig wire{};                            // away from this port, after the queue
  WireConfig rx_wire{};                         // towards this port, before ingress
};

// What is wrong with the settings, with the valid values; empty: nothing.
std::string wrong(const PortConfig& config);

// Counts since the port was added, in packets and frame bytes (without overhead).
struct PortStats {
  std::uint64_t rx_packets = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t tx_packets = 0;  // handed to Output::transmit
  std::uint64_t tx_bytes = 0;
  std::uint64_t enqueued_packets = 0;  // accepted by the traffic manager, whether they wait or not
  std::uint64_t dropped_packets = 0;   // queue full
  std::uint64_t dropped_bytes = 0;
  std::uint64_t early_dropped_packets = 0;   // dropped by RED on arrival
  std::uint64_t marked_packets = 0;          // marked by RED on arrival, and not dropped in egress
  std::uint64_t egress_dropped_packets = 0;  // dropped by the program's egress pipeline
  std::uint64_t down_dropped_packets = 0;    // lost before their service: the link was down
  std::uint64_t lost_packets = 0;            // lost on the wire
  std::uint64_t duplicated_packets = 0;      // copies that the wire made
  std::uint64_t rx_lost_packets = 0;         // of those received: lost on the wire towards the port
  std::uint64_t rx_duplicated_packets = 0;   // copies that it made
  std::uint32_t on_wire_packets = 0;         // in service or on the wire now
  std::uint32_t queue_packets = 0;           // waiting now, not counting the one in service
  std::uint64_t queue_bytes = 0;             // frame + overhead bytes waiting now
  std::uint32_t max_queue_packets = 0;       // since the last read that reset it
  std::uint64_t max_queue_bytes = 0;
};

// How ports classify packets for counting: a rule that makes a small number, the label, from a
// header's field, as it is when the packet enters a queue. The label is 0 for packets without that
// header, and for packets from the CPU port, which the control plane may send anywhere. If the
// program lacks the field or never reads it in egress, the label is that of the frame as received,
// by `of_frame`; without that it is 0.
struct LabelRule {
  std::string header;                                     // its name in the program, such as "ipv4"
  std::string field;                                      // at most 64 bits
  std::uint32_t (*label)(std::uint64_t value) = nullptr;  // value to label; null: no rule
  std::uint32_t (*of_frame)(std::span<const std::byte> frame) = nullptr;
};

// What became of the packets with one label that were handed to a port's queue, in packets since
// the program was set. Each replica and clone counts.
struct LabelCounts {
  std::uint32_t label = 0;
  std::uint64_t entered = 0;  // handed to the queue
  std::uint64_t dropped = 0;  // of those: lost because the queue was full or the port was removed
  std::uint64_t served = 0;   // of those: got their turn, and the egress pipeline ran
  std::uint64_t early_dropped = 0;  // of those that entered: dropped by RED on arrival
  std::uint64_t marked = 0;  // of those served: marked by RED on arrival, and not dropped in egress
  std::uint64_t down_dropped = 0;   // of those that entered: lost unserved, as the link was down
  std::uint64_t lost = 0;           // of those served: lost on the wire
  std::uint64_t duplicated = 0;     // copies that the wire made
  std::uint64_t not_sent = 0;       // of those served: dropped in egress, or sent round again
  std::uint64_t egress_marked = 0;  // of those served: left with CE, and had come without
  std::uint64_t waiting() const {
    return entered - dropped - early_dropped - down_dropped - served;
  }
  bool operator==(const LabelCounts&) const = default;
};

}  // namespace tiercast::engine
