// What a running sender counts, and how another thread reads it, without locks or copies on the
// packet path.
//
// Each Counter and SharedHistogram has one thread that writes it. A reader sees each figure whole,
// but not all figures at the same instant. Sums agree exactly (generated = sent + dropped, received
// = the sum of all fates) once the writers have stopped. Totals count from the start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/seal.h"
#include "base/counter.h"
#include "base/histogram.h"
#include "protocols/base/units.h"
#include "protocols/core/core.h"
#include "protocols/core/rows.h"

namespace tiercast::sender {

struct LayerStatistics {
  std::uint16_t session = 0;
  Rank rank = 0;
  Rate rate;                      // as last set by the core, before the session ended
  std::uint32_t packet_size = 0;  // IP bytes
  std::uint64_t generated = 0;    // packets; sent + dropped
  std::uint64_t sent = 0;
  std::uint64_t dropped = 0;  // no buffer, link down, or refused by the device
};

// The figures of one transmitting thread.
struct WorkerStatistics {
  unsigned lcore = 0;
  unsigned port = 0;            // index in Statistics::ports
  std::uint32_t sessions = 0;   // running now
  std::uint32_t layers = 0;     // with a rate above 0
  std::uint64_t generated = 0;  // data packets of all layers, including those of ended sessions
  std::uint64_t sent = 0;
  std::uint64_t sent_bytes = 0;  // IP
  std::uint64_t dropped = 0;
  std::uint64_t control_sent = 0;  // messages of the cores other than data
  std::uint64_t control_dropped = 0;
  std::uint64_t feedback_delivered = 0;  // passed to a core, which may still refuse them
  std::uint64_t feedback_refused = 0;    // by the cores
  std::uint64_t feedback_late = 0;       // for a session that had ended in the meantime
  FeedbackRefusals feedback_refusals;    // forged or untrue
  agent::SealRefusals seal_refusals;     // without that receiver's seal, where there are keys
  std::uint64_t behind = 0;              // times that a departure was late by more than kBehind
  std::uint64_t given_up = 0;  // packets that the layers' schedules have skipped after stalls
  std::uint64_t payload_underruns = 0;  // packets for which standard input had no bytes
  std::uint64_t trace_lost = 0;         // records for which there was no room
  Histogram late;                       // departure minus due time
  Histogram gap_error;  // |gap to the layer's previous packet - the interval of its rate|
};

// The figures of a port's receiving side. Each received frame has one fate: malformed, foreign,
// answered, learned, queries, ring_full or handed_on. A worker then counts a frame that was handed
// on, as feedback_delivered, feedback_late, or one of feedback_refusals or
// seal_refusals.
struct FeedbackStatistics {
  std::uint64_t received = 0;   // frames
  std::uint64_t handed_on = 0;  // valid feedback of a running session, put into the ring of its
                                // worker
  std::uint64_t malformed = 0;  // wrong length, checksum or header
  std::uint64_t foreign = 0;    // valid, but for another address, port, session or scheme
  std::uint64_t answered = 0;   // ARP and ICMP echo requests
  std::uint64_t learned = 0;    // ARP of the next hop
  std::uint64_t queries = 0;    // IGMP queries, which a member of no group need not answer
  std::uint64_t ring_full = 0;  // lost because the worker did not keep up
  std::uint64_t missed = 0;     // never received: the device had no room, by its own count
};

struct PortStatistics {
  std::string device;  // as DPDK names it, such as "net_null0"
  bool link_up = true;
  FeedbackStatistics feedback;
};

struct Statistics {
  Time taken;
  std::vector<PortStatistics> ports;
  std::vector<WorkerStatistics> workers;
  std::vector<LayerStatistics> layers;  // of the running sessions, by session and rank

  FeedbackStatistics feedback() const;  // of all ports
  FeedbackRefusals refusals() const;    // of all workers
  agent::SealRefusals seals() const;    // of all workers
};

inline constexpr Duration kBehind = Duration::microseconds(100);

}  // namespace tiercast::sender
