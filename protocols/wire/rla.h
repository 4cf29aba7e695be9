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
  static constexpr std::size_t kBytes = 32;  // with the common header
  static constexpr std::uint8_t kRetransmission = 1;
  static constexpr std::uint8_t kLast = 2;   // the object ends with this packet
  static constexpr std::uint8_t kWhole = 4;  // `base` is the first packet: nothing is missing yet
  static constexpr std::uint8_t kFlags = 7;  // all that are defined
  std::uint16_t session = 0;
  std::uint8_t flags = 0;
  std::uint16_t payload_length = 0;  // bytes of the object; 0: a stream, with no object
  std::uint32_t seq = 0;             // packet number; wraps
  std::uint32_t tx_time_us = 0;      // sender's clock at this transmission, wraps after 71 minutes
  std::uint32_t base = 0;            // first packet that the sender still repeats; at most `seq`
  std::uint64_t offset = 0;          // of the payload in the object, bytes
};

// A run of packets that were received: start .. end - 1 (RFC 2018).
struct RlaSack {
  static constexpr std::size_t kBytes = 8;
  std::uint32_t start = 0;
  std::uint32_t end = 0;
};

struct RlaAck {
  static constexpr std::size_t kFixedBytes = 24;  // with the common header
  static constexpr std::size_t kMaxRecords = 3;
  static constexpr std::size_t kMaxBytes = kFixedBytes + kMaxRecords * RlaSack::kBytes;
  static constexpr std::uint8_t kRexmitNow = 1;   // repeat packet cum_ack at once, to me
  static constexpr std::uint8_t kHello = 2;       // no data yet: the numbers mean nothing
  static constexpr std::uint8_t kIncomplete = 4;  // a part of the object has been missed for good
  static constexpr std::uint8_t kBye = 8;         // the source leaves
  static constexpr std::uint8_t kFlags = 15;      // all that are defined
  std::uint16_t session = 0;
  std::uint8_t flags = 0;
  std::uint8_t record_count = 0;   // 0 .. 3
  std::uint32_t source = 0;        // identification number of the receiver
  std::uint32_t cum_ack = 0;       // next packet expected: all before it are here
  std::uint32_t echo_time_us = 0;  // tx_time_us of the packet that caused this
  std::uint16_t rwnd = 0;          // packets from cum_ack on that the receiver has room for
  std::array<RlaSack, kMaxRecords> sacks{};

  std::size_t bytes() const { return kFixedBytes + record_count * RlaSack::kBytes; }
};

// Data: the message may be longer than header and payload_length. Acknowledgements end with their
// last record, and each record has start < end, after cum_ack. The order of the checks, which
// decides the error named, is docs/wire-format.md's.
Error parse(std::span<const std::byte> message, RlaData& out);
Error parse(std::span<const std::byte> message, RlaAck& out);

// Return the bytes written; 0 if `out` is too short or a field is outside its range (session,
// flags, record_count).
std::size_t write(const RlaData& data, std::span<std::byte> out);
std::size_t write(const RlaAck& ack, std::span<std::byte> out);

}  // namespace tiercast::wire
