// Ones' complement sums of many bytes in a few nanoseconds, in the machine's byte order (RFC 1071
// 2(B) allows it), for whoever writes or checks millions of checksums a second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tiercast::wire {

// The ones' complement sum of 16-bit words, not folded. An odd last byte is padded with zero. Up to
// 2^16 bytes.
inline std::uint64_t sum_words(const std::byte* bytes, std::size_t n) {
  std::uint64_t sum = 0;
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    sum += (word & 0xffffffff) + (word >> 32);
  }
  // Sizes that the compiler knows: a copy of n - i bytes would be a call.
  if ((n & 4) != 0) {
    std::uint32_t word;
    std::memcpy(&word, bytes + i, 4);
    sum += word;
    i += 4;
  }
  if ((n & 2) != 0) {
    std::uint16_t word;
    std::memcpy(&word, bytes + i, 2);
    sum += word;
    i += 2;
  }
  if ((n & 1) != 0) {
    std::uint16_t word = 0;
    std::memcpy(&word, bytes + i, 1);
    sum += word;
  }
  return sum;
}

// The sum in 16 bits, not inverted.
inline std::uint16_t fold(std::uint64_t sum) {
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

}  // namespace tiercast::wire
