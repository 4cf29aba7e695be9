// A frame in memory that its receiver lends to the engine, so that the engine need not copy it.
#pragma once

#include <cstddef>
#include <span>

namespace tiercast::engine {

class FrameLender {
 public:
  virtual ~FrameLender() = default;
  // The engine does not use the frame any more.
  virtual void take_back(void* handle) = 0;
};

struct LentFrame {
  std::span<std::byte> bytes;     // the engine may change them, and read 8 bytes beyond them
  void* handle = nullptr;         // the lender's name for it
  FrameLender* lender = nullptr;  // must outlive the frame's time in the engine
};

}  // namespace tiercast::engine
