// Which stream a received frame belongs to, and what it says: number and time of departure.
//
// Two kinds of messages are known, both UDP over IPv4 (docs/wire-format.md): the data of all
// schemes, to port 5500 of a group, and test frames, to port 5502 of a group or a host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/base/units.h"
#include "protocols/wire/udp_frame.h"

namespace tiercast::streams {

// The smallest frame has room for a test frame's message: 64 bytes with FCS.
struct TestMessage {
  static constexpr std::uint16_t kPort = 5502;
  static constexpr std::size_t kBytes = 18;
  std::uint16_t trial = 0;
  std::uint32_t seq = 0;
  std::int64_t sent_ns = 0;  // CLOCK_MONOTONIC of the sender
};
void write_test_message(const TestMessage& message, std::span<std::byte> out);
// False if it is none. `in`: at least kBytes.
bool parse_test_message(std::span<const std::byte> in, TestMessage& out);

enum class Reading : std::uint8_t {
  kData,       // of a scheme
  kTest,       // a test frame
  kControl,    // valid, to port 5500, but no data: reports, probes, what a sender reflects
  kOther,      // valid, but none of these; or not IPv4, or not UDP
  kMalformed,  // wrong length, checksum or header
};

struct DataFrame {
  std::uint32_t source = 0;  // host order
  std::uint32_t group = 0;   // the destination
  std::uint32_t seq = 0;
  std::uint32_t ip_bytes = 0;
  std::uint16_t trial = 0;  // of a test frame
  wire::Ecn ecn = wire::Ecn::kNotEct;
  bool stamped = false;         // has the sender's time
  bool repeats = false;         // of a scheme that sends packets again under their number
  std::uint32_t sent = 0;       // the sender's time, in a unit of its own; serial
  std::int64_t latency_ns = 0;  // arrival minus departure, if both clocks are the same; a scheme's
                                // stamp is rounded down to microseconds, so it is up to 1 us more
};

// `frame`: from the Ethernet header on, without FCS. `arrival_ns`: CLOCK_MONOTONIC.
Reading read_data_frame(std::span<const std::byte> frame, std::int64_t arrival_ns, DataFrame& out);

}  // namespace tiercast::streams
