// MLDA's messages (MLDA III; PROTOCOLS 7.1): data, the sender's report, a receiver's report, and
// the sender's reflection of the latter to the group.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/wire/wire.h"

namespace tiercast::wire {

// Starts every data packet of an MLDA layer; payload follows.
struct MldaData {
  static constexpr std::size_t kBytes = 20;  // including the common header
  std::uint16_t session = 0;
  std::uint8_t rank = 0;  // 0 .. 7
  std::uint8_t pair = 0;  // 1, 2: first and second of a packet pair, sent back to back; 0: not in a
                          // pair
  std::uint32_t seq = 0;  // per layer; wraps
  std::uint32_t tx_time_us = 0;  // sender's clock, wraps after 71 minutes
};

// Control message, kind 1, on the base layer. It has one record per layer, from the bottom.
struct MldaSenderReport {
  static constexpr std::uint8_t kKind = 1;
  static constexpr std::size_t kFixedBytes = 24;
  static constexpr std::size_t kRecordBytes = 4;
  static constexpr std::size_t kMaxRecords = 8;
  static constexpr std::size_t kMaxBytes = kFixedBytes + kMaxRecords * kRecordBytes;
  std::uint16_t session = 0;
  std::uint8_t record_count = 0;  // y, the number of layers sent: 1 .. 8
  std::uint32_t sr_seq = 0;       // wraps
  std::uint32_t tx_time_us = 0;
  std::uint32_t max_rtt_us = 0;                   // the largest reported; 0: none was reported
  std::array<std::uint32_t, kMaxRecords> rate{};  // R_Lk, IP bytes/s, > 0

  std::size_t bytes() const { return kFixedBytes + record_count * kRecordBytes; }
};

// Feedback.
struct MldaReceiverReport {
  static constexpr std::size_t kBytes = 36;
  std::uint16_t session = 0;
  std::uint8_t rank = 0;         // highest layer that the receiver has joined
  bool asks_rtt = false;         // it has no recent end-to-end measurement of the round-trip time
  std::uint32_t source = 0;      // identification number of the receiver
  std::uint32_t sr_seq = 0;      // the sender report that this answers
  std::uint32_t rate = 0;        // r_j, IP bytes/s
  std::uint32_t loss = 0;        // l, as a fraction times 2^32 - 1
  std::uint32_t rtt_us = 0;      // 0: not measured yet
  std::uint32_t rx_time_us = 0;  // receiver's clock when this was sent
};

// Control message, kind 2, on the layer that the report names.
struct MldaReflection {
  static constexpr std::uint8_t kKind = 2;
  static constexpr std::size_t kBytes = 32;
  std::uint16_t session = 0;
  std::uint8_t rank = 0;
  bool asks_rtt = false;
  std::uint32_t source = 0;
  std::uint32_t sr_seq = 0;
  std::uint32_t rate = 0;
  std::uint32_t rx_time_us = 0;  // receiver's clock; up to here, all as in the report
  std::uint32_t tx_time_us = 0;  // sender's clock
};

// Data may be longer than the header (payload). The others must end with their last field or
// record. docs/wire-format.md gives the order of the checks.
Error parse(std::span<const std::byte> message, MldaData& out);
Error parse(std::span<const std::byte> message, MldaSenderReport& out);
Error parse(std::span<const std::byte> message, MldaReceiverReport& out);
Error parse(std::span<const std::byte> message, MldaReflection& out);

// All return the bytes written; 0 if `out` is too short or a field is out of range.
std::size_t write(const MldaData& data, std::span<std::byte> out);
std::size_t write(const MldaSenderReport& report, std::span<std::byte> out);
std::size_t write(const MldaReceiverReport& report, std::span<std::byte> out);
std::size_t write(const MldaReflection& reflection, std::span<std::byte> out);

}  // namespace tiercast::wire
