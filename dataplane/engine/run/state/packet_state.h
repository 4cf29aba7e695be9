// What the processing of one packet reads and leaves behind, in addition to the packet vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

struct PacketState {
  Cell* phv = nullptr;
  // The frame as received. The parser reads it, and may load up to 8 bytes beyond its end.
  std::span<const std::byte> frame;
  std::size_t cursor = 0;             // bytes that the parser consumed
  std::uint32_t received_length = 0;  // bytes; the value that counters add
  std::uint32_t error = 0;            // of the parser; 0: no error
  bool exited = false;
  std::uint32_t clone_session = 0;  // 0: no clone wanted
  std::uint32_t clone_fields = 0;   // a field list
  bool resubmit = false;
  bool recirculate = false;
  std::uint32_t again_fields = 0;  // the field list to keep on resubmit or recirculate
  std::uint32_t truncate = 0;      // bytes to keep; 0: all
  std::size_t states_left = 0;     // number of states that the parser may still pass
  std::uint32_t next_pc = 0;       // where the code that ran last continues
  std::uint32_t digest = kNone;    // index into Image::digests
  bool assertion_failed = false;   // the packet has then exited as well
};

}  // namespace tiercast::engine
