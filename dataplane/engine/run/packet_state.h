// What one packet's processing reads and leaves behind, beside the packet vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/engine/image/image.h"

namespace tiercast::engine {

struct PacketState {
  Cell* phv = nullptr;
  // As received; the parser reads it, and may load up to 8 bytes beyond its end.
  std::span<const std::byte> frame;
  std::size_t cursor = 0;             // bytes that the parser consumed
  std::uint32_t received_length = 0;  // bytes; what counters count
  std::uint32_t error = 0;            // of the parser; 0: none
  bool exited = false;
  std::uint32_t clone_session = 0;  // 0: no clone wanted
  std::uint32_t clone_fields = 0;   // a field list
  bool resubmit = false;
  bool recirculate = false;
  std::uint32_t again_fields = 0;  // the field list of resubmit and recirculate
  std::uint32_t truncate = 0;      // bytes kept; 0: all
  std::size_t states_left = 0;     // that the parser may pass
  std::uint32_t next_pc = 0;       // where the code that ran last goes on
  std::uint32_t digest = kNone;    // of Image::digests
  bool assertion_failed = false;   // then it has exited too
};

}  // namespace tiercast::engine
