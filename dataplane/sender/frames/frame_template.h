// A layer's Ethernet, VLAN, IPv4 and UDP headers, made once. Each packet only adds its number and
// the checksums.
//
// Writes the same bytes as wire::write_udp_headers in a few nanoseconds, because it updates the
// IPv4 checksum from the number alone, and UDP's from the bytes that changed. Sums are kept in the
// machine's byte order, which RFC 1071 2(B) allows.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "dataplane/dpdk/checksum_offload.h"
#include "dataplane/sender/frames/sender_addresses.h"
#include "protocols/wire/udp_frame.h"
#include "protocols/wire/word_sum.h"

namespace tiercast::sender {

using dpdk::ChecksumOffload;
using wire::fold;

class FrameTemplate {
 public:
  FrameTemplate() = default;
  // `ip_bytes`: size of each packet, 28 .. 65535.
  FrameTemplate(const wire::UdpFlow& flow, const std::optional<Vlan>& vlan, std::uint32_t ip_bytes,
                ChecksumOffload offload);

  std::size_t header_bytes() const { return header_bytes_; }  // up to the UDP payload
  std::size_t frame_bytes() const { return frame_bytes_; }
  std::size_t message_bytes() const { return frame_bytes_ - header_bytes_; }

  // Writes the headers at `frame` and nothing else. `message_sum`: sum_words() of the message;
  // ignored if the device computes UDP's checksum.
  void write(std::byte* frame, std::uint16_t ip_id, std::uint64_t message_sum) const {
    write_headers(frame, ip_id);
    if (!offload_.udp) write_checksum(frame, message_sum);
  }
  // The same in two steps: first everything except UDP's checksum, then that checksum, unless the
  // device computes it.
  void write_headers(std::byte* frame, std::uint16_t ip_id) const {
    std::byte* const ip = frame + header_bytes_ - wire::kIpv4Bytes - wire::kUdpBytes;

    std::memcpy(frame, header_.data(), 42);
    if (header_bytes_ != 42) std::memcpy(frame + 42, header_.data() + 42, dpdk::kVlanBytes);
    const std::uint16_t id = to_network(ip_id);
    std::memcpy(ip + 4, &id, 2);
    if (!offload_.ipv4) {
      const std::uint32_t sum = ip_sum_ + id;  // of two numbers of 16 bits
      const auto checksum = static_cast<std::uint16_t>(~((sum & 0xffff) + (sum >> 16)));
      std::memcpy(ip + 10, &checksum, 2);
    }
  }
  void write_checksum(std::byte* frame, std::uint64_t message_sum) const {
    auto checksum = static_cast<std::uint16_t>(~fold(udp_sum_ + message_sum));
    if (checksum == 0) checksum = 0xffff;  // because zero means "no checksum" (RFC 768)
    std::memcpy(frame + header_bytes_ - 2, &checksum, 2);
  }

 private:
  static std::uint16_t to_network(std::uint16_t value) {
    if constexpr (std::endian::native == std::endian::big) return value;
    return static_cast<std::uint16_t>(value << 8 | value >> 8);
  }

  std::array<std::byte, 46> header_{};  // number zero; checksums zero, or the pseudo header's sum
  std::uint16_t frame_bytes_ = 0;
  std::uint32_t ip_sum_ = 0;   // folded, as the next
  std::uint32_t udp_sum_ = 0;  // sum of the pseudo header and the header
  std::uint8_t header_bytes_ = 0;
  ChecksumOffload offload_;
};

}  // namespace tiercast::sender
