// What data packets carry after their headers: a pattern, a file over and over, or standard input.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tiercast::sender {

// Byte i of a message holds i mod 256. Up to 9,216 bytes.
std::span<const std::byte> pattern();

class PayloadSource {
 public:
  virtual ~PayloadSource() = default;
  // Writes the next bytes of the stream; false if there were too few, and the rest is zero.
  virtual bool fill(std::span<std::byte> out) = 0;
};

// `from`: "-" for standard input, else a file. ConfigError: cannot be opened, or is empty. Standard
// input is read by its own thread, a megabyte ahead; only one source may read it.
std::unique_ptr<PayloadSource> open_payload(const std::string& from);
// The same from any descriptor, which stays open.
std::unique_ptr<PayloadSource> read_payload(int descriptor);

}  // namespace tiercast::sender
