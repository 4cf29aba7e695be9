// From the packet vector to a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/engine/image/image.h"
#include "dataplane/engine/run/packet_state.h"

namespace tiercast::engine {

class Deparser {
 public:
  explicit Deparser(const Image& image) : image_(image) {}

  // The bytes that write() will write.
  std::size_t header_bytes(const Cell* phv) const;
  static bool all_zero(const Cell* phv, const std::vector<std::uint32_t>& cells) {
    Cell any = 0;
    for (const std::uint32_t cell : cells) any |= phv[cell];
    return any == 0;
  }
  // What has to be done to the frame. kRewrite: the valid headers are, in the deparser's order,
  // those that it starts with, and end at the cursor, so that rewrite() is enough. kNothing:
  // moreover none has changed.
  enum class Frame { kNothing, kRewrite, kDeparse };
  Frame compare_with_frame(const Cell* phv, std::size_t cursor) const;
  // Writes what the program may have changed over the headers in a copy of the frame.
  void rewrite(const Cell* phv, std::byte* frame) const;
  // The same, and remembers that it is done.
  void rewrite_early(Cell* phv, std::byte* frame) const;
  // Writes the valid headers in the deparser's order; returns the bytes written.
  std::size_t write(const PacketState& packet, std::byte* out) const;

 private:
  const Image& image_;
};

}  // namespace tiercast::engine
