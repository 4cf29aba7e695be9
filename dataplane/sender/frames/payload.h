// What data packets carry after their headers: a pattern, a file that repeats, or standard input.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tiercast::sender {

// The pattern: byte i of a message is i mod 256. Up to 9,216 bytes.
std::span<const std::byte> pattern();

class PayloadSource {
 public:
  virtual ~PayloadSource() = default;
  // Writes the next bytes of the stream. If there are too few, fills the rest with zeros and
  // returns false.
  virtual bool fill(std::span<std::byte> out) = 0;
};

// `count` sources, each from the start. `from`: "-" for standard input, a file, whose bytes they
// share, or "" for the pattern, which needs none: then all are null. ConfigError as of
// agent::FileContents. A thread of its own reads standard input, a megabyte ahead; only one source
// may read it.
std::vector<std::unique_ptr<PayloadSource>> open_payload(const std::string& from,
                                                         std::size_t count);
// The same from any descriptor, which is not closed.
std::unique_ptr<PayloadSource> read_payload(int descriptor);

}  // namespace tiercast::sender
