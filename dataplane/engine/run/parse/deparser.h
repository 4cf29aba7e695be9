// Writes the packet vector to a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/engine/image/image.h"
#include "dataplane/engine/image/native_abi.h"
#include "dataplane/engine/run/state/packet_state.h"

namespace tiercast::engine {

class Deparser {
 public:
  explicit Deparser(const Image& image) : image_(image) {}
  // Native code that does the same from now on; null: none. It must outlive this object.
  void use(const NativePipeline* native) { native_ = native; }

  // The number of bytes that write() will write.
  std::size_t header_bytes(const Cell* phv) const;
  // Whether Image::egress_watch, which there must be, says that egress has changed no header.
  bool is_unchanged(const Cell* phv) const {
    if (native_ != nullptr) return native_->is_unchanged(phv);
    Cell any = 0;
    for (const std::uint32_t cell : *image_.egress_watch) any |= phv[cell];
    return any == 0;
  }
  // What must be done to the frame. FrameNeeds::kRewrite: rewrite() is enough, because the frame
  // starts with the valid headers, in the deparser's order, and they end at the cursor. kNothing:
  // also, none of them has changed.
  FrameNeeds compare_with_frame(const Cell* phv, std::size_t cursor) const;
  // Takes a copy of the frame, and overwrites the header fields that the program may have changed.
  void rewrite(const Cell* phv, std::byte* frame) const;
  // The same, and notes that it is done.
  void rewrite_early(Cell* phv, std::byte* frame) const;
  // Writes the valid headers in the deparser's order. Returns the number of bytes written.
  std::size_t write(const PacketState& packet, std::byte* out) const;

 private:
  const Image& image_;
  const NativePipeline* native_ = nullptr;
};

}  // namespace tiercast::engine
