// SIM's two messages (SIM 3.1; PROTOCOLS 3.1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/wire/wire.h"

namespace tiercast::wire {

// Starts every data packet of a SIM layer; payload follows.
struct SimData {
  static constexpr std::size_t kBytes = 32;  // including the common header
  std::uint16_t session = 0;
  std::uint8_t rank = 0;         // 0 .. 7
  std::uint16_t rate_epoch = 0;  // incremented at each adjustment of the rates; wraps
  std::uint32_t seq = 0;         // per layer; wraps
  std::uint32_t tx_time_us = 0;  // sender's clock, wraps after 71 minutes
  std::uint32_t fb_req = 0;      // feedback request number; wraps
  std::uint32_t group_rate = 0;  // the value that is adjusted for this layer: cumulative IP bytes/s
  std::uint32_t max_rtt_us = 0;  // the sender's estimate for the farthest receiver
};

struct SimRecord {
  static constexpr std::size_t kBytes = 24;
  std::uint8_t rank = 0;           // top group of these receivers
  std::uint32_t reports = 0;       // number of feedback reports summed up here
  std::uint32_t congested = 0;     // number of those that say "congested"
  std::uint32_t min_cum_rate = 0;  // cumulative received rate, IP bytes/s
  std::uint32_t max_cum_rate = 0;
  std::uint32_t receivers =
      0;  // in the subtree, at least `reports`; 0 (with reports == 0) is a BYE

  bool bye() const { return receivers == 0; }
};

struct SimFeedback {
  static constexpr std::size_t kFixedBytes = 28;  // including the common header
  static constexpr std::size_t kMaxRecords = 8;
  static constexpr std::size_t kMaxBytes = kFixedBytes + kMaxRecords * SimRecord::kBytes;
  std::uint16_t session = 0;
  std::uint32_t source = 0;          // identification number of the receiver or aggregator
  std::uint32_t fb_req = 0;          // the request that this answers
  std::uint32_t hold_us = 0;         // time from first seeing fb_req to sending this
  std::uint32_t subtree_rtt_us = 0;  // largest RTT below this node; 0 from a receiver
  std::uint8_t record_count = 0;     // 0 .. 8
  std::array<SimRecord, kMaxRecords> records{};

  std::size_t bytes() const { return kFixedBytes + record_count * SimRecord::kBytes; }
};

// Data may be longer than the header (payload). Feedback must end with its last record. Accepted
// feedback has records in ascending order of rank, congested <= reports <= receivers, and min <=
// max. docs/wire-format.md gives the order of the checks, which decides which error is reported.
Error parse(std::span<const std::byte> message, SimData& out);
Error parse(std::span<const std::byte> message, SimFeedback& out);

// Both return the bytes written; 0 if `out` is too short or a field (session, rank, record_count)
// is out of range.
std::size_t write(const SimData& data, std::span<std::byte> out);
std::size_t write(const SimFeedback& feedback, std::span<std::byte> out);

}  // namespace tiercast::wire
