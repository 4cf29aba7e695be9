// What the processing of one packet reads and leaves behind, in addition to the packet vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/engine/image/image.h"
#include "dataplane/engine/image/native_abi.h"
#include "dataplane/engine/packet/packet_pool.h"

namespace tiercast::engine {

struct PacketState : NativePacket {
  // The `error` of a packet that the parser rejects without one: verify(false, error.NoError).
  static constexpr std::uint32_t kRejected = 0xffffffff;

  std::uint32_t parser_error() const { return error == kRejected ? 0 : error; }
  std::span<const std::byte> frame() const { return {data, size}; }
  void set_frame(std::span<const std::byte> frame) {
    data = frame.data();
    size = frame.size();
  }
  std::uint32_t clone_session = 0;  // 0: no clone wanted
  std::uint32_t clone_fields = 0;   // a field list
  bool resubmit = false;
  bool recirculate = false;
  std::uint32_t again_fields = 0;           // the field list to keep on resubmit or recirculate
  std::uint32_t truncate = kMaxFrameBytes;  // bytes to keep
  std::uint32_t next_pc = 0;                // where the code that ran last continues
  std::uint32_t digest = kNone;             // index into Image::digests
  bool assertion_failed = false;            // the packet has then exited as well
};

}  // namespace tiercast::engine
