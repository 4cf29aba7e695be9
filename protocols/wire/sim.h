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
  static constexpr std::size_t kBytes = 32;  // with the common header
  std::uint16_t session = 0;
  std::uint8_t rank = 0;         // 0 .. 7
  std::uint16_t rate_epoch = 0;  // +1 at each adjustment of the rates; wraps
  std::uint32_t seq = 0;         // per layer; wraps
  std::uint32_t tx_time_us = 0;  // sender's clock, wraps after 71 minutes
  std::uint32_t fb_req = 0;      // feedback request number; wraps
  std::uint32_t group_rate = 0;  // what is adjusted for this layer: cumulative IP bytes/s
  std::uint32_t max_rtt_us = 0;  // the sender's estimate for the farthest receiver
};

struct SimRecord {
  static constexpr std::size_t kBytes = 24;
  std::uint8_t rank = 0;           // top subscribed group of these receivers
  std::uint32_t reports = 0;       // feedback reports summed up here
  std::uint32_t congested = 0;     // of these, "congested"
  std::uint32_t min_cum_rate = 0;  // cumulative received rate, IP bytes/s
  std::uint32_t max_cum_rate = 0;
  std::uint32_t receivers =
      0;  // in the subtree, at least `reports`; 0 (and so reports == 0) is a BYE

  bool bye() const { return receivers == 0; }
};

struct SimFeedback {
  static constexpr std::size_t kFixedBytes = 28;  // with the common header
  static constexpr std::size_t kMaxRecords = 8;
  static constexpr std::size_t kMaxBytes = kFixedBytes + kMaxRecords * SimRecord::kBytes;
  std::uint16_t session = 0;
  std::uint32_t source = 0;          // identification number of the receiver or aggregator
  std::uint32_t fb_req = 0;          // the request answered
  std::uint32_t hold_us = 0;         // from first seeing fb_req to sending this
  std::uint32_t subtree_rtt_us = 0;  // largest RTT below this node; 0 from a receiver
  std::uint8_t record_count = 0;     // 0 .. 8
  std::array<SimRecord, kMaxRecords> records{};

  std::size_t bytes() const { return kFixedBytes + record_count * SimRecord::kBytes; }
};

// Data: message may be longer than the header (payload). Feedback: message must end with its last
// record. Accepted feedback has records in ascending order of rank, congested <= reports <=
// receivers, and min <= max. The order of the checks, which decides the error named, is
// docs/wire-format.md's.
Error parse(std::span<const std::byte> message, SimData& out);
Error parse(std::span<const std::byte> message, SimFeedback& out);

// Return the bytes written; 0 if `out` is too short or a field is outside its range (session, rank,
// record_count).
std::size_t write(const SimData& data, std::span<std::byte> out);
std::size_t write(const SimFeedback& feedback, std::span<std::byte> out);

}  // namespace tiercast::wire
