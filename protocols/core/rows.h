// The rows that senders and receivers report in every runtime (docs/agents.md). Counters are totals
// since the start; sizes are IP bytes.
#pragma once

#include <array>
#include <cstdint>

#include "protocols/core/core.h"

namespace tiercast {

// Counters of one layer. generated = sent + dropped.
struct LayerCounters {
  std::uint64_t generated = 0;
  std::uint64_t sent = 0;
  std::uint64_t dropped = 0;  // no free buffer, or the device refused the packet
};

// Counters of the messages that reached the sender.
struct FeedbackCounters {
  std::uint64_t delivered = 0;  // handed to the core, which may still refuse them
  std::uint64_t malformed = 0;  // wrong length, checksum or header
  std::uint64_t foreign = 0;    // valid, but for another address, port, session or scheme
};

// Feedback that was refused as forged or untrue. The first two never reached the core, because they
// are not from the receiver in whose name they speak (driver/feedback_sources.h).
struct FeedbackRefusals {
  std::uint64_t non_member = 0;    // of a number that no member has, or from no member's address
  std::uint64_t impersonated = 0;  // of a member's number, from another address
  std::uint64_t implausible = 0;   // of a member itself (SenderCore::implausible)
  std::uint64_t total() const { return non_member + impersonated + implausible; }
};

// What a receiver's socket saw, in addition to the core's own counters.
struct SocketCounters {
  std::uint64_t dropped = 0;  // by the kernel: full buffer or bad checksum
  // Data that is not from the sender, or not for a group of the session; and errors that ICMP,
  // forged as a rule, has left at a socket that only receives.
  std::uint64_t foreign = 0;
  std::uint64_t send_errors = 0;  // feedback that the kernel refused
};

// "layer"
inline std::array<TraceField, 6> layer_row(Rank rank, Rate rate, std::uint32_t packet_size,
                                           const LayerCounters& layer) {
  const auto sent = static_cast<double>(layer.sent);
  return {{{"rank", static_cast<double>(rank)},
           {"rate_Bps", rate.bytes_per_second()},
           {"sent_packets", sent},
           {"sent_bytes", sent * packet_size},
           {"generated_packets", static_cast<double>(layer.generated)},
           {"dropped_packets", static_cast<double>(layer.dropped)}}};
}

// "feedback". `refused`: messages that the core refused; `implausible` are others.
// `control_dropped`: the sender's own messages that could not be sent.
inline std::array<TraceField, 5> feedback_row(const FeedbackCounters& feedback,
                                              std::uint64_t refused, std::uint64_t implausible,
                                              std::uint64_t control_dropped) {
  return {{{"accepted", static_cast<double>(feedback.delivered - refused - implausible)},
           {"refused", static_cast<double>(refused)},
           {"malformed", static_cast<double>(feedback.malformed)},
           {"foreign", static_cast<double>(feedback.foreign)},
           {"control_dropped", static_cast<double>(control_dropped)}}};
}

// "feedback.refused", written only if there is any
inline std::array<TraceField, 3> feedback_refused_row(const FeedbackRefusals& refusals) {
  return {{{"non_member", static_cast<double>(refusals.non_member)},
           {"impersonated", static_cast<double>(refusals.impersonated)},
           {"implausible", static_cast<double>(refusals.implausible)}}};
}

// "received"
inline std::array<TraceField, 8> received_row(const ReceiverCounters& counters) {
  return {{{"rank_top", static_cast<double>(counters.top)},
           {"bytes", static_cast<double>(counters.bytes)},
           {"packets", static_cast<double>(counters.packets)},
           {"lost", static_cast<double>(counters.lost)},
           {"marked", static_cast<double>(counters.marked)},
           {"rate_Bps", counters.rate.bytes_per_second()},
           {"delivered", static_cast<double>(counters.delivered)},
           {"complete", counters.complete ? 1.0 : 0.0}}};
}

// "join": the first packet of a layer, and the time since it was joined
inline std::array<TraceField, 2> join_row(Rank rank, Duration since_join) {
  return {{{"rank", static_cast<double>(rank)},
           {"latency_us", static_cast<double>(since_join.ns()) / 1000}}};
}

// "socket"
inline std::array<TraceField, 4> socket_row(const SocketCounters& socket, std::uint64_t invalid) {
  return {{{"dropped", static_cast<double>(socket.dropped)},
           {"invalid", static_cast<double>(invalid)},
           {"foreign", static_cast<double>(socket.foreign)},
           {"send_errors", static_cast<double>(socket.send_errors)}}};
}

}  // namespace tiercast
