// Writes test frames (docs/wire-format.md) in a few nanoseconds each: headers and checksums come
// from a template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "dataplane/streams/data_frame.h"
#include "protocols/wire/udp_frame.h"
#include "protocols/wire/word_sum.h"

namespace tiercast::streams {

class TestFrame {
 public:
  static constexpr std::size_t kSmallest = wire::kFrameHeaderBytes + TestMessage::kBytes;  // 60

  // `bytes`: of the frame without FCS, kSmallest .. 65549. `source`: host order.
  TestFrame(std::uint32_t source, const wire::MacAddress& mac, std::size_t bytes,
            std::uint16_t trial);

  std::size_t bytes() const { return frame_.size(); }
  // `out`: room for bytes(). `destination`: host order.
  void write(std::byte* out, std::uint32_t destination, const wire::MacAddress& mac,
             std::uint32_t seq, std::int64_t sent_ns) const {
    std::memcpy(out, frame_.data(), frame_.size());
    std::memcpy(out, mac.data(), mac.size());
    const std::uint32_t to = __builtin_bswap32(destination);
    std::memcpy(out + kDestinationAt, &to, sizeof to);
    std::byte* const message = out + wire::kFrameHeaderBytes;
    const std::uint32_t number = __builtin_bswap32(seq);
    std::memcpy(message + 4, &number, sizeof number);
    const std::uint64_t time = __builtin_bswap64(static_cast<std::uint64_t>(sent_ns));
    std::memcpy(message + 8, &time, sizeof time);
    const auto ip = static_cast<std::uint16_t>(~wire::fold(ip_sum_ + to));
    std::memcpy(out + kIpChecksumAt, &ip, sizeof ip);
    auto udp = static_cast<std::uint16_t>(
        ~wire::fold(udp_sum_ + to + wire::sum_words(message, TestMessage::kBytes)));
    if (udp == 0) udp = 0xffff;  // because zero means "no checksum" (RFC 768)
    std::memcpy(out + kUdpChecksumAt, &udp, sizeof udp);
  }

 private:
  static constexpr std::size_t kIpChecksumAt = 24, kDestinationAt = 30, kUdpChecksumAt = 40;

  std::vector<std::byte> frame_;  // without destination, number, time and checksums
  std::uint64_t ip_sum_ = 0;
  std::uint64_t udp_sum_ = 0;  // of the pseudo header and the header
};

}  // namespace tiercast::streams
