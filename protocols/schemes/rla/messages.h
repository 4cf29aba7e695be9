// RLA's two messages: data, and the acknowledgement of each data packet (RLA 3.3; PROTOCOLS 5.1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/wire/wire.h"

namespace tiercast::wire {

// Starts every data packet; payload follows.
struct RlaData {
  static constexpr std::size_t kBytes = 32;  // including the common header
  static constexpr std::uint8_t kRetransmission = 1;
  static constexpr std::uint8_t kLast = 2;   // this packet ends the object
  static constexpr std::uint8_t kWhole = 4;  // `base` is the first packet: the sender still repeats
                                             // everything
  static constexpr std::uint8_t kFlags = 7;  // all flags defined
  std::uint16_t session = 0;
  std::uint8_t flags = 0;
  std::uint16_t payload_length = 0;  // bytes of the object; 0: a stream without an object
  std::uint32_t seq = 0;             // packet number; wraps
  std::uint32_t tx_time_us = 0;      // sender's clock at this transmission, wraps after 71 minutes
  std::uint32_t base = 0;    // the first packet that the sender still repeats; not after `seq`
  std::uint64_t offset = 0;  // bytes: position of the payload in the object
};

// A run of received packets: start .. end - 1 (RFC 2018).
struct RlaSack {
  static constexpr std::size_t kBytes = 8;
  std::uint32_t start = 0;
  std::uint32_t end = 0;
};

struct RlaAck {
  static constexpr std::size_t kFixedBytes = 24;  // including the common header
  static constexpr std::size_t kMaxRecords = 3;
  static constexpr std::size_t kMaxBytes = kFixedBytes + kMaxRecords * RlaSack::kBytes;
  static constexpr std::uint8_t kRexmitNow = 1;  // repeat packet cum_ack to this receiver at once
  static constexpr std::uint8_t kHello = 2;  // no data has arrived yet, so the numbers mean nothing
  static constexpr std::uint8_t kIncomplete = 4;  // a part of the object is missing for good
  static constexpr std::uint8_t kBye = 8;         // the source is leaving
  static constexpr std::uint8_t kFlags = 15;      // all flags defined
  std::uint16_t session = 0;
  std::uint8_t flags = 0;
  std::uint8_t record_count = 0;   // 0 .. 3
  std::uint32_t source = 0;        // identification number of the receiver
  std::uint32_t cum_ack = 0;       // next packet expected; all packets before it have arrived
  std::uint32_t echo_time_us = 0;  // tx_time_us of the packet that this answers
  std::uint16_t rwnd = 0;          // room in packets, from cum_ack on
  std::array<RlaSack, kMaxRecords> sacks{};

  std::size_t bytes() const { return kFixedBytes + record_count * RlaSack::kBytes; }
  // One past the highest packet that it acknowledges.
  std::uint32_t end() const;
};

// Data may be longer than the header and payload_length. Acknowledgements end with their last
// record; each record has start < end and lies after cum_ack. docs/wire-format.md gives the order
// of the checks, which decides which error is reported.
Error parse(std::span<const std::byte> message, RlaData& out);
Error parse(std::span<const std::byte> message, RlaAck& out);

// Both return the bytes written; 0 if `out` is too short or a field (session, flags, record_count)
// is out of range.
std::size_t write(const RlaData& data, std::span<std::byte> out);
std::size_t write(const RlaAck& ack, std::span<std::byte> out);

}  // namespace tiercast::wire
