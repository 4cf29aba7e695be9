// The callbacks of a Switch: frames that leave, and what the program reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "dataplane/engine/control/control.h"
#include "dataplane/engine/packet/lent_frame.h"

namespace tiercast::engine {

// Called synchronously from receive() and advance(). An implementation must not call back into the
// Switch. Arguments are valid only during the call.
class Output {
 public:
  virtual ~Output() = default;
  // The frame's last bit reaches the far end of the port's wire at due_ns. Only in
  // Switch::deliver_before() is due_ns later than the time given to the call that led here.
  virtual void transmit(std::uint32_t port, std::span<const std::byte> frame,
                        std::int64_t due_ns) = 0;
  // The same for a frame in lent memory. Return false if it has been sent, or copied. Return true
  // to keep the memory until it has been sent: if `last`, the frame is not the engine's any more,
  // and nobody takes it back; otherwise the engine uses it, too, but does not change it.
  virtual bool transmit_lent(std::uint32_t port, const LentFrame& frame, bool /*last*/,
                             std::int64_t due_ns) {
    transmit(port, frame.bytes, due_ns);
    return false;
  }
  // A frame sent to the CPU port, with the program's packet_in header in front.
  virtual void packet_in(std::span<const std::byte> frame) = 0;

  // A list of digests that is full or old enough (DigestConfig). Return false if nobody took the
  // list: its digests then count as dropped and may be reported again.
  virtual bool digest(const DigestList&) { return false; }
  // Entries that had no hit for their idle_timeout_ns since they were last hit, written or
  // reported.
  virtual void entries_expired(std::string_view /*table*/, std::span<const TableEntry>) {}
  // The text of a log_msg().
  virtual void log_message(std::string_view) {}
  // An assert() or assume() failed, so the packet is dropped. The argument names its place in the
  // P4 source.
  virtual void assertion_failed(std::string_view) {}
};

}  // namespace tiercast::engine
